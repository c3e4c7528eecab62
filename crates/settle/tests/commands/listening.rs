//! A running `settle listen`, and notifications to send to it.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use settle_domain::event::EventType;
use settle_domain::ids::DeliveryId;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::notification::Notification;
use settle_testing::binary::Settle;
use settle_testing::serving::{Answer, PATIENCE, Signal, answer, send, send_signal};
use settle_wiring::system::SystemClock;

use crate::BINARY;

/// Not plain ASCII, because a secret may contain any characters.
pub const SECRET: &str = "whsec-ключ-1";
pub const BODY: &str = include_str!("../../../verify/tests/data/notification.json");

/// A running receiver, killed at the end of the test unless it has stopped before.
pub struct Listening {
    child: Child,
    pub stdout: Lines,
    pub stderr: Lines,
    pub address: SocketAddr,
}

/// The output of a process, line by line.
pub struct Lines {
    lines: Receiver<String>,
    /// The lines read so far.
    pub read: Vec<String>,
}

impl Lines {
    pub fn of(stream: impl Read + Send + 'static) -> Lines {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                // The test may have ended its reading.
                let _ = sender.send(line);
            }
        });
        Lines { lines, read: Vec::new() }
    }

    /// The next line.
    pub fn next(&mut self) -> String {
        let line = self.lines.recv_timeout(PATIENCE);
        let line = line.unwrap_or_else(|fault| panic!("{fault} after {:#?}", self.read));
        self.read.push(line.clone());
        line
    }

    /// Reads to the end.
    pub fn finish(&mut self) {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.read.push(line),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end: {:#?}", self.read),
            }
        }
    }
}

impl Listening {
    /// Starts a receiver on a free port and waits until it listens.
    pub fn start(arguments: &[&str]) -> Listening {
        Listening::start_in(&Settle::sqlite(BINARY), arguments)
    }

    pub fn start_in(settle: &Settle, arguments: &[&str]) -> Listening {
        let given: Vec<&str> = ["listen", "--port", "0"].iter().chain(arguments).copied().collect();
        let mut child = settle
            .command(&given)
            .env("SETTLE_LISTEN_SECRET", SECRET)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stdout = Lines::of(child.stdout.take().expect("it was asked for"));
        let mut stderr = Lines::of(child.stderr.take().expect("it was asked for"));
        let line = stderr.next();
        let address = line.strip_prefix("Listening on http://").and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).parse().expect("an address");
        Listening { child, stdout, stderr, address }
    }

    /// Sends a notification and returns the answer.
    pub fn post(&self, notification: &Notification) -> Answer {
        answer(self.send(notification))
    }

    /// Sends a notification without waiting for the answer.
    pub fn send(&self, notification: &Notification) -> TcpStream {
        let headers: Vec<(&str, &str)> = notification
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
            .collect();
        let body = std::str::from_utf8(&notification.body).expect("UTF-8");
        send(self.address, "POST", "/webhooks/settle", &headers, body)
    }

    /// The next line of standard output, and the two lines after it that describe the settlement.
    pub fn block(&mut self) -> [String; 3] {
        [self.stdout.next(), self.stdout.next(), self.stdout.next()]
    }

    /// Asks it to stop, as Ctrl-C does.
    pub fn interrupt(&self) {
        send_signal(&self.child, Signal::INT);
    }

    /// Waits until it has ended in order; returns all of standard output and all of standard error.
    pub fn ended(mut self) -> (Vec<String>, Vec<String>) {
        self.stdout.finish();
        self.stderr.finish();
        let status = self.child.wait().expect("it has ended");
        assert_eq!(status.code(), Some(0), "{:#?}", self.stderr.read);
        (std::mem::take(&mut self.stdout.read), std::mem::take(&mut self.stderr.read))
    }

    /// Stops it; returns what it printed.
    pub fn stop(self) -> (Vec<String>, Vec<String>) {
        self.interrupt();
        self.ended()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The id of a delivery.
pub fn delivery(number: u8) -> String {
    format!("0190d3c4-7c00-7000-8000-0000000000{number:02x}")
}

pub fn secret() -> WebhookSecret {
    WebhookSecret::parse(SECRET.to_owned()).expect("a secret")
}

/// The present time, moved by this many seconds.
pub fn from_now(seconds: i64) -> Timestamp {
    Timestamp::from_micros(SystemClock.now().as_micros() + seconds * 1_000_000)
}

/// A notification as the service signs it at the given time.
pub fn signed_at(number: u8, at: Timestamp) -> Notification {
    let delivery: DeliveryId = delivery(number).parse().expect("an id");
    Notification::sign(&secret(), delivery, EventType::SettlementCompleted, BODY.as_bytes().to_vec(), at)
}

/// A notification as the service signs it now.
pub fn signed(number: u8) -> Notification {
    signed_at(number, from_now(0))
}
