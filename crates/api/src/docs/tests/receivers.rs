//! The receivers that the page shows take what the service signs, once, and nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use settle_domain::signature::{DELIVERY_ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign};
use settle_domain::time::Timestamp;
use tempfile::TempDir;

use crate::docs::examples::NOTIFICATION;

/// Not plain ASCII, because a secret need not be.
const SECRET: &str = "whsec-ключ-1";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// The bound of every receiver.
const BODY_BYTES_MAX: usize = 64 * 1_024;
const FIRST: &str = "0190d3c4-7c00-7000-8000-0000000000d1";
const SECOND: &str = "0190d3c4-7c00-7000-8000-0000000000d2";

/// The file whose text the page shows.
fn shown(file: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs/receivers").join(file);
    file.into_os_string().into_string().unwrap()
}

/// A receiver that runs in a folder of its own until it is dropped.
struct Receiver {
    process: Child,
    port: u16,
    lines: Box<dyn BufRead>,
    folder: TempDir,
}

impl Receiver {
    fn start(command: &[&str], package: &str) -> Receiver {
        let folder = TempDir::new().unwrap();
        let mut process = Command::new(command[0])
            .args(&command[1..])
            .current_dir(folder.path())
            .env("WEBHOOK_SECRET", SECRET)
            .env("PORT", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|fault| {
                panic!("{} does not start ({fault}): install the Debian package {package}", command[0])
            });
        let (stdout, stderr) = (process.stdout.take().unwrap(), process.stderr.take().unwrap());
        // PHP's own server says all it has to say on stderr. The others log there: nobody reads it.
        let mut lines: Box<dyn BufRead> = if package == "php-cli" {
            Box::new(BufReader::new(stderr))
        } else {
            std::thread::spawn(move || std::io::copy(&mut { stderr }, &mut std::io::sink()));
            Box::new(BufReader::new(stdout))
        };
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        // "listening on port 4711", or "… (http://127.0.0.1:4711) started"
        let numbers = line.split(|character: char| !character.is_ascii_digit());
        let port = numbers.filter_map(|number| number.parse().ok()).rfind(|port| *port > 1_023);
        let port = port.unwrap_or_else(|| panic!("{command:?} does not say where it listens: {line:?}"));
        Receiver { process, port, lines, folder }
    }

    /// The status of the answer to a notification; `None` if the connection was cut instead.
    fn post(&self, headers: &[(&str, &str)], body: &str) -> Option<u16> {
        self.send(headers, &format!("content-length: {}\r\n\r\n{body}", body.len()))
    }

    /// The same when a proxy on the way cut the body into chunks.
    fn post_in_chunks(&self, headers: &[(&str, &str)], body: &str) -> Option<u16> {
        let (first, rest) = body.split_at(body.len() / 3);
        let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
        let chunks = [first, rest, ""].map(chunk).concat();
        self.send(headers, &format!("transfer-encoding: chunked\r\n\r\n{chunks}"))
    }

    fn send(&self, headers: &[(&str, &str)], rest: &str) -> Option<u16> {
        let mut request = "POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n".to_owned();
        for (name, value) in headers {
            request = format!("{request}{name}: {value}\r\n");
        }
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        // A receiver that has read enough may cut the connection, before or after it has answered.
        let mut answer = Vec::new();
        let heard = stream.write_all(format!("{request}{rest}").as_bytes());
        let heard = heard.and_then(|()| stream.read_to_end(&mut answer));
        let waited = |fault: std::io::Error| fault.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!heard.is_err_and(waited), "no answer");
        String::from_utf8_lossy(&answer).split(' ').nth(1).and_then(|status| status.parse().ok())
    }

    /// What it said of the next notification that was new to it.
    fn next_settlement(&mut self) -> String {
        let mut line = String::new();
        while !line.contains("settlement ") {
            line.clear();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "it has ended");
        }
        line.trim().rsplit(' ').next().unwrap().to_owned()
    }

    /// The names of the files it keeps, and their contents.
    fn stored(&self) -> Vec<(String, String)> {
        let files = std::fs::read_dir(self.folder.path().join("notifications")).unwrap();
        let read = |file: std::io::Result<std::fs::DirEntry>| {
            let file = file.unwrap();
            let text = std::fs::read_to_string(file.path()).unwrap();
            (file.file_name().into_string().unwrap(), text)
        };
        let mut stored: Vec<(String, String)> = files.map(read).collect();
        stored.sort();
        stored
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

/// A body as it is sent, compact, with a character that is not ASCII.
fn body(settlement_id: &str) -> String {
    let mut body: serde_json::Value = serde_json::from_str(NOTIFICATION).unwrap();
    body["settlement_id"] = settlement_id.into();
    body["destination_reference"] = "carteira-são".into();
    body.to_string()
}

/// The headers of a notification that was signed at this time with this secret.
fn signed(at: Timestamp, secret: &str, delivery_id: &str, body: &str) -> [(&'static str, String); 3] {
    [
        (TIMESTAMP_HEADER, at.as_seconds().to_string()),
        (SIGNATURE_HEADER, sign(secret.as_bytes(), at, body.as_bytes())),
        (DELIVERY_ID_HEADER, delivery_id.to_owned()),
    ]
}

fn lent<'a>(headers: &'a [(&'static str, String); 3]) -> [(&'static str, &'a str); 3] {
    headers.each_ref().map(|(name, value)| (*name, value.as_str()))
}

fn check(mut receiver: Receiver) {
    let now = now();
    let (first, second) = (body("first"), body("second"));
    let headers = signed(now, SECRET, FIRST, &first);
    let good = lent(&headers);
    assert_eq!(receiver.post(&good, &first), Some(204), "what the service signed");
    assert_eq!(receiver.post(&good, &first), Some(204), "the same once more");
    assert_eq!(receiver.post_in_chunks(&good, &first), Some(204), "the same in chunks");
    let headers = signed(now, SECRET, SECOND, &second);
    assert_eq!(receiver.post_in_chunks(&lent(&headers), &second), Some(204), "another one, in chunks");
    // What comes again is taken, and leads to nothing.
    assert_eq!([receiver.next_settlement(), receiver.next_settlement()], ["first", "second"]);
    let stored = [(format!("{FIRST}.json"), first.clone()), (format!("{SECOND}.json"), second)];
    assert_eq!(receiver.stored(), stored);

    refuses_what_was_not_signed(&receiver, now, &first);
    refuses_what_is_too_long(&receiver, now);
    assert_eq!(receiver.stored(), stored, "nothing of what was refused is kept");
    assert_eq!(receiver.post(&good, &first), Some(204), "it still runs");
}

fn refuses_what_was_not_signed(receiver: &Receiver, now: Timestamp, body: &str) {
    let other_id = "0190d3c4-7c00-7000-8000-0000000000d3";
    let headers = signed(now, SECRET, other_id, body);
    let good = lent(&headers);
    assert_eq!(receiver.post(&good, &body.replace("1000.00", "9000.00")), Some(400), "another amount");
    assert_eq!(receiver.post(&good, &format!("{body}\n")), Some(400), "another byte");
    let with = |index: usize, value: &str| {
        let mut changed = headers.clone();
        changed[index].1 = value.to_owned();
        receiver.post(&lent(&changed), body)
    };
    let later = (now.as_seconds() + 1).to_string();
    assert_eq!(with(0, &later), Some(400), "another time than the signed one");
    assert_eq!(with(0, "soon"), Some(400), "no time");
    let signature = &headers[1].1;
    assert_eq!(with(1, &signature[..signature.len() - 1]), Some(400), "a signature cut short");
    assert_eq!(with(1, signature.trim_start_matches("sha256=")), Some(400), "no prefix");
    // Nobody signs this header, and it becomes the name of a file.
    for id in ["", "../../0190d3c4-7c00-7000-8000-00000000", "0190d3c4"] {
        assert_eq!(with(2, id), Some(400), "the delivery {id:?}");
    }
    let ago = Timestamp::from_micros(now.as_micros() - 400_000_000);
    assert_eq!(receiver.post(&lent(&signed(ago, SECRET, other_id, body)), body), Some(400), "an old one");
    assert_eq!(
        receiver.post(&lent(&signed(now, "other", other_id, body)), body),
        Some(400),
        "another secret"
    );
    assert_eq!(receiver.post(&[], body), Some(400), "no headers");
    for length in ["-1", "x"] {
        let answer = receiver.send(&good, &format!("content-length: {length}\r\n\r\n{body}"));
        assert!(matches!(answer, None | Some(400 | 413)), "a length of {length}: {answer:?}");
    }
    let answer = receiver.send(&good, &format!("transfer-encoding: chunked\r\n\r\n-5\r\n{body}"));
    assert!(matches!(answer, None | Some(400 | 413)), "a chunk of -5 bytes: {answer:?}");
}

/// Signed as it should be: only its length is wrong.
fn refuses_what_is_too_long(receiver: &Receiver, now: Timestamp) {
    let long = body(&"x".repeat(BODY_BYTES_MAX));
    let headers = signed(now, SECRET, "0190d3c4-7c00-7000-8000-0000000000d4", &long);
    for answer in [receiver.post(&lent(&headers), &long), receiver.post_in_chunks(&lent(&headers), &long)] {
        assert!(matches!(answer, None | Some(413)), "{answer:?}");
    }
}

#[test]
fn the_python_receiver_takes_what_is_signed_once_and_nothing_else() {
    check(Receiver::start(&["python3", &shown("receiver.py")], "python3"));
}

#[test]
fn the_node_receiver_takes_what_is_signed_once_and_nothing_else() {
    check(Receiver::start(&["node", &shown("receiver.mjs")], "nodejs"));
}

#[test]
fn the_go_receiver_takes_what_is_signed_once_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let program = folder.path().join("receiver").into_os_string().into_string().unwrap();
    // `go run` would leave the program behind when it is ended itself.
    let built = Command::new("go").args(["build", "-o", &program, &shown("receiver.go")]).output();
    let built = built.unwrap_or_else(|fault| panic!("{fault}: install the Debian package golang-go"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    check(Receiver::start(&[&program], "golang-go"));
}

#[test]
fn the_php_receiver_takes_what_is_signed_once_and_nothing_else() {
    check(Receiver::start(&["php", "-S", "127.0.0.1:0", &shown("receiver.php")], "php-cli"));
}

#[test]
fn the_ruby_receiver_takes_what_is_signed_once_and_nothing_else() {
    check(Receiver::start(&["ruby", &shown("receiver.rb")], "ruby-webrick"));
}
