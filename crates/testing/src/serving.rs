//! A running `settle serve`, its log, and a minimal HTTP client.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::process::{Pid, kill_process};
use serde_json::Value;

pub use rustix::process::Signal;

use crate::binary::Settle;
use crate::secrecy::internal_names_in;

/// How long a test waits for the service before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(50);

/// A running service, killed at the end of the test unless it has stopped before.
pub struct Serving {
    child: Child,
    log: Receiver<String>,
    /// The lines logged so far.
    pub logged: Vec<String>,
}

impl Serving {
    /// Starts the service on ports that the system chooses.
    pub fn start(settle: &Settle, arguments: &[&str]) -> Serving {
        let arguments: Vec<&str> = ["serve"].iter().chain(arguments).copied().collect();
        let mut child = settle
            .command(&arguments)
            .env("SETTLE_API__LISTEN", "127.0.0.1:0")
            .env("SETTLE_OPERATOR__LISTEN", "127.0.0.1:0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = BufReader::new(child.stderr.take().expect("it was asked for"));
        let (sender, log) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The test may have ended its reading.
                let _ = sender.send(line);
            }
        });
        Serving { child, log, logged: Vec::new() }
    }

    /// Starts the service and waits until both listeners listen. Returns the addresses of the merchant API
    /// and of the operator's listener.
    pub fn ready(settle: &Settle) -> (Serving, SocketAddr, SocketAddr) {
        let mut serving = Serving::start(settle, &[]);
        let api = serving.listens("the merchant API listens");
        let operator = serving.listens("the operator's listener listens");
        (serving, api, operator)
    }

    /// Waits for the log line with this message; returns the address in it.
    pub fn listens(&mut self, message: &str) -> SocketAddr {
        let line = self.wait_for(message);
        let line: Value = serde_json::from_str(&line).expect("a line of the log is JSON");
        line["address"].as_str().expect("an address").parse().expect("an address")
    }

    /// Waits for a line of the log that contains the text.
    pub fn wait_for(&mut self, text: &str) -> String {
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) => self.logged.push(line),
                Err(fault) => panic!("{fault} while waiting for {text:?}: {:#?}", self.logged),
            }
            let line = self.logged.last().expect("just pushed");
            if line.contains(text) {
                return line.clone();
            }
        }
    }

    /// Waits for a line, unless it was logged already.
    pub fn wait_for_once(&mut self, text: &str) {
        if !self.logged.iter().any(|line| line.contains(text)) {
            self.wait_for(text);
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send_signal(&self.child, signal);
    }

    /// The id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the service has stopped; returns its exit code and all log lines.
    pub fn stopped(mut self) -> (Option<i32>, Vec<String>) {
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) => self.logged.push(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not stop: {:#?}", self.logged),
            }
        }
        let status = self.child.wait().expect("it has ended");
        (status.code(), std::mem::take(&mut self.logged))
    }

    /// Stops the service with SIGTERM; returns all log lines.
    pub fn stop(self) -> Vec<String> {
        self.signal(Signal::TERM);
        let (code, logged) = self.stopped();
        assert_eq!(code, Some(0), "{logged:#?}");
        logged
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process that runs, or that nobody has waited for yet.
pub fn send_signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("a process of ours");
}

/// An HTTP answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    /// The body.
    pub body: String,
}

impl Answer {
    /// The body, parsed as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|fault| panic!("{fault}: {self:?}"))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

/// Sends a request and reads its answer, which shows a merchant nothing internal. An empty key sends none.
pub fn ask(address: SocketAddr, method: &str, path: &str, key: &str, body: &str) -> Answer {
    let authorization = format!("Bearer {key}");
    let headers: &[(&str, &str)] =
        if key.is_empty() { &[] } else { &[("authorization", authorization.as_str())] };
    let answer = answer(send(address, method, path, headers, body));
    if key.starts_with("sk_") {
        let internal = internal_names_in(&format!("{}\n{}", answer.head, answer.body));
        assert!(internal.is_empty(), "a merchant sees {internal:?}: {answer:?}");
    }
    answer
}

/// Sends a request without waiting for its answer.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the service listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: settle\r\nconnection: close\r\n");
    for (name, value) in headers {
        head = format!("{head}{name}: {value}\r\n");
    }
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).expect("the service reads");
    stream
}

/// Reads the answer to a request that was sent.
pub fn answer(mut stream: TcpStream) -> Answer {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer to its end");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).expect("a status line").parse().expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Gets a path with a key.
pub fn get(address: SocketAddr, path: &str, key: &str) -> Answer {
    ask(address, "GET", path, key, "")
}
