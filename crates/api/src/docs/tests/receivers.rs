//! The receivers that the page shows take what the service signs, and nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use settle_domain::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER, sign};
use settle_domain::time::Timestamp;

use crate::docs::examples::NOTIFICATION;

/// Not plain ASCII, because a secret need not be.
const SECRET: &str = "whsec-ключ-1";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// A receiver that runs until it is dropped.
struct Receiver {
    process: Child,
    port: u16,
}

impl Receiver {
    /// Starts the file whose text the page shows.
    fn start(program: &str, package: &str, file: &str) -> Receiver {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs").join(file);
        let mut command = Command::new(program);
        command.arg(file).env("WEBHOOK_SECRET", SECRET).env("PORT", "0");
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = started.unwrap_or_else(|fault| {
            panic!("{program} does not start ({fault}): install the Debian package {package}")
        });
        // The line it prints says that it listens, and where.
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit(' ').next().and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| panic!("{program} does not say where it listens: {line:?}"));
        Receiver { process, port }
    }

    /// The status of the answer to a notification.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> u16 {
        self.send(headers, &format!("content-length: {}\r\n\r\n{body}", body.len()))
    }

    /// The same when a proxy on the way cut the body into chunks.
    fn post_in_chunks(&self, headers: &[(&str, &str)], body: &str) -> u16 {
        let (first, rest) = body.split_at(body.len() / 3);
        let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
        let chunks = [first, rest, ""].map(chunk).concat();
        self.send(headers, &format!("transfer-encoding: chunked\r\n\r\n{chunks}"))
    }

    fn send(&self, headers: &[(&str, &str)], rest: &str) -> u16 {
        let mut request = "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".to_owned();
        for (name, value) in headers {
            request = format!("{request}{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        stream.write_all(format!("{request}{rest}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("{answer:?}"))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "the receivers look at the real clock")]
fn now() -> Timestamp {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp::from_micros(i64::try_from(elapsed.as_micros()).unwrap())
}

fn check(program: &str, package: &str, file: &str) {
    let receiver = Receiver::start(program, package, file);
    // Compact, as it is sent, with a character that is not ASCII.
    let body: serde_json::Value = serde_json::from_str(NOTIFICATION).unwrap();
    let body = body.to_string().replace("wallet-main", "carteira-são");
    let now = now();
    let ago = Timestamp::from_micros(now.as_micros() - 400_000_000);
    let post = |at: Timestamp, signature: &str, body: &str| {
        let seconds = at.as_seconds().to_string();
        receiver.post(&[(TIMESTAMP_HEADER, &seconds), (SIGNATURE_HEADER, signature)], body)
    };
    let good = sign(SECRET.as_bytes(), now, body.as_bytes());

    assert_eq!(post(now, &good, &body), 204, "what the service signed");
    let seconds = now.as_seconds().to_string();
    let headers = [(TIMESTAMP_HEADER, seconds.as_str()), (SIGNATURE_HEADER, good.as_str())];
    assert_eq!(receiver.post_in_chunks(&headers, &body), 204, "in chunks");

    assert_eq!(post(now, &good, &body.replace("1000.00", "9000.00")), 400, "another amount");
    assert_eq!(post(now, &good, &format!("{body}\n")), 400, "another byte");
    let later = now.plus(Duration::from_secs(1));
    assert_eq!(post(later, &good, &body), 400, "another time than the signed one");
    assert_eq!(post(now, &sign(b"other", now, body.as_bytes()), &body), 400, "another secret");
    assert_eq!(post(now, &good[..good.len() - 1], &body), 400, "a signature cut short");
    assert_eq!(post(now, good.trim_start_matches("sha256="), &body), 400, "no prefix");
    assert_eq!(post(ago, &sign(SECRET.as_bytes(), ago, body.as_bytes()), &body), 400, "an old one");
    assert_eq!(receiver.post(&[], &body), 400, "no headers");

    assert_eq!(post(now, &good, &body), 204, "it still runs");
}

#[test]
fn the_python_receiver_takes_what_is_signed_and_nothing_else() {
    check("python3", "python3", "verify.py");
}

#[test]
fn the_node_receiver_takes_what_is_signed_and_nothing_else() {
    check("node", "nodejs", "verify.mjs");
}
