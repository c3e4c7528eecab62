//! `settle listen --forward-to`: a developer's app gets what the service sent, and its answer goes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;
use settle_testing::binary::{Settle, keys};
use settle_testing::serving::PATIENCE;

use crate::BINARY;
use crate::listening::{BODY, Listening, SECRET, from_now, signed, signed_at};

/// A request as the app read it: its first line, its other lines, its body.
struct Request {
    first: String,
    headers: Vec<String>,
    body: String,
}

/// An app that gives each request the same answer, and passes it to the test.
struct App {
    address: SocketAddr,
    requests: Receiver<Request>,
}

impl App {
    fn start(answer: String) -> App {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&mut stream);
                stream.write_all(answer.as_bytes()).unwrap();
                // The test may have ended.
                let _ = sender.send(request);
            }
        });
        App { address, requests }
    }

    fn answering(status: &str, body: &str) -> App {
        App::start(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
    }

    fn next(&self) -> Request {
        self.requests.recv_timeout(PATIENCE).expect("a request")
    }
}

fn read(stream: &mut TcpStream) -> Request {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty());
    let first = lines.next().unwrap();
    let headers: Vec<String> = lines.collect();
    let length = headers.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    reader.read_exact(&mut body).unwrap();
    Request { first, headers, body: String::from_utf8(body).unwrap() }
}

fn forwarding(address: SocketAddr, arguments: &[&str]) -> Listening {
    let url = format!("http://{address}/hooks/settle?from=listen");
    Listening::start(&[&["--forward-to", url.as_str()], arguments].concat())
}

#[test]
fn the_app_gets_the_headers_and_the_bytes_and_the_sender_its_status() {
    let app = App::answering("202 Accepted", "thanks\u{1b}[2J");
    let mut listening = forwarding(app.address, &[]);
    let notification = signed(1);
    let given = listening.post(&notification);
    assert_eq!(given.status, 202, "{given:?}");
    let request = app.next();
    assert_eq!(request.first, "POST /hooks/settle?from=listen HTTP/1.1");
    assert_eq!(request.body, BODY);
    for (name, value) in &notification.headers {
        let header = format!("{name}: {}", value.to_str().unwrap());
        assert!(request.headers.contains(&header), "{header}: {:#?}", request.headers);
    }
    assert!(request.headers.contains(&format!("host: {}", app.address)), "{:#?}", request.headers);
    assert_eq!(request.headers.iter().filter(|line| line.starts_with("host:")).count(), 1);
    let [head, ..] = listening.block();
    assert!(head.contains("  NEW ") && head.ends_with("answer 202"), "{head}");
    let answer = listening.stdout.next();
    assert!(answer.ends_with("/hooks/settle?from=listen answered 202: thanks\\u{1b}[2J"), "{answer}");
    let (_, stderr) = listening.stop();
    assert_eq!(stderr.last().unwrap(), "1 received: 1 new, 0 duplicate, 0 test, 0 refused");
}

#[test]
fn what_cannot_be_trusted_never_reaches_the_app() {
    let app = App::answering("500 Internal Server Error", "");
    let listening = forwarding(app.address, &["--json"]);
    assert_eq!(listening.post(&signed_at(1, from_now(-400))).status, 400);
    assert_eq!(listening.post(&signed(2)).status, 500, "the app's own");
    let request = app.next();
    let id = request.headers.iter().find(|line| line.starts_with("service-delivery-id: ")).unwrap();
    assert!(id.ends_with("02"), "the first that it gets is the second: {id}");
    let (stdout, _) = listening.stop();
    let lines: Vec<Value> = stdout.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0].get("forwarded"), None, "{lines:#?}");
    assert_eq!((&lines[1]["status"], &lines[1]["forwarded"]["status"]), (&500.into(), &500.into()));
    assert_eq!(keys(&lines[1]["forwarded"]), ["body", "error", "status", "url"]);
}

#[test]
fn an_app_that_does_not_answer_is_told_as_such() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut listening = forwarding(nobody, &[]);
    assert_eq!(listening.post(&signed(1)).status, 502);
    listening.block();
    let line = listening.stdout.next();
    assert!(line.contains("gave no answer: ") && line.contains("refused"), "{line}");
    let app = App::start("this is not HTTP\r\n\r\n".to_owned());
    let listening = forwarding(app.address, &[]);
    assert_eq!(listening.post(&signed(1)).status, 502);
}

#[test]
fn a_long_answer_is_not_read_to_its_end() {
    for (length, end) in [(16 * 1_024, "x…"), (16 * 1_024 + 1, "answered 200, with more than is read here")]
    {
        let app = App::answering("200 OK", &"x".repeat(length));
        let mut listening = forwarding(app.address, &[]);
        assert_eq!(listening.post(&signed(1)).status, 200);
        listening.block();
        let line = listening.stdout.next();
        assert!(line.ends_with(end) && line.len() < 400, "{line}");
    }
}

#[test]
fn what_is_no_app_is_refused() {
    let settle = Settle::sqlite(BINARY);
    let listen = |more: &[&str]| settle.run(&[&["listen", "--secret", SECRET], more].concat());
    for url in ["https://localhost:3000/", "localhost:3000", "http://user:hunter2@localhost/"] {
        let ran = listen(&["--port", "0", "--forward-to", url]);
        assert!(ran.code == Some(2) && ran.stderr.contains("must be a http URL"), "{ran:?}");
    }
    let ran = listen(&["--port", "0", "--forward-to", "http://localhost:3000", "--status", "500"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let ran = listen(&["--port", &free, "--forward-to", &format!("http://localhost:{free}/")]);
    assert!(ran.failed().contains("--forward-to: is this listener itself"), "{ran:?}");
}
