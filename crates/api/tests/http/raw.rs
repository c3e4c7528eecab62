//! A connection on which a test writes bytes that no HTTP client would: half requests, bad bytes, chunks.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::answer::Answer;
use crate::contract::Contract;
use crate::service::Service;

/// How long a test waits for the service before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection to the service.
pub struct Connection(TcpStream);

impl Connection {
    pub async fn open(service: &Service) -> Connection {
        Connection::to(service.address).await
    }

    /// A connection to another listener than the merchant API.
    pub async fn to(address: SocketAddr) -> Connection {
        Connection(TcpStream::connect(address).await.expect("the service listens"))
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.expect("the service reads");
    }

    /// Ends writing; reading goes on.
    pub async fn close_half(&mut self) {
        self.0.shutdown().await.expect("the connection is open");
    }

    /// Reads everything until the service closes the connection.
    pub async fn read_to_close(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = self.0.read_to_end(&mut bytes);
        let read = tokio::time::timeout(PATIENCE, read).await.expect("the service closes the connection");
        read.expect("the connection was closed in order");
        bytes
    }

    /// Reads everything until the connection ends, in whichever way.
    pub async fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = self.0.read_to_end(&mut bytes);
        // A connection that another one displaced may be reset.
        let _ = tokio::time::timeout(PATIENCE, read).await.expect("the service ends the connection");
        bytes
    }

    /// The next answer, checked against the contract.
    pub async fn answer(&mut self, method: &str, path: &str) -> Answer {
        let answer = self.next().await;
        Contract::committed().hold(method, path, &answer);
        answer
    }

    /// The next answer.
    pub async fn next(&mut self) -> Answer {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.byte().await);
        }
        let head = String::from_utf8(head).expect("a head is text");
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).expect("a status line");
        let headers: HeaderMap = lines.filter(|line| !line.is_empty()).map(header).collect();
        let length = headers["content-length"].to_str().expect("a number").parse().expect("a number");
        let mut body = vec![0; length];
        let read = self.0.read_exact(&mut body);
        tokio::time::timeout(PATIENCE, read).await.expect("the service answers").expect("a whole body");
        Answer {
            status: status.parse().expect("a status"),
            headers,
            text: String::from_utf8(body).expect("the body is UTF-8"),
        }
    }

    async fn byte(&mut self) -> u8 {
        let byte = tokio::time::timeout(PATIENCE, self.0.read_u8()).await;
        byte.expect("the service answers").expect("an answer before the end")
    }
}

fn header(line: &str) -> (HeaderName, HeaderValue) {
    let (name, value) = line.split_once(": ").expect("a header");
    (name.parse().expect("a name"), value.parse().expect("a value"))
}
