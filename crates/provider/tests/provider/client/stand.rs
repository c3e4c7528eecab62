//! A provider that does on each request what the test has told it to, and remembers what it was sent.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http::HeaderMap;
use settle_domain::time::Timestamp;
use settle_provider::signing::{self, ProviderSecret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What is done on a request.
#[derive(Debug, Clone)]
pub(crate) enum Script {
    /// Write these bytes, and keep the connection.
    Say(String),
    /// Write these bytes, and close the connection.
    SayAndClose(String),
    /// Say nothing, and keep the connection.
    Hang,
}

/// The requests that came, and how many connections.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pub(crate) requests: Vec<String>,
    pub(crate) connections: usize,
}

pub(crate) struct Stand {
    pub(crate) address: SocketAddr,
    pub(crate) taken: Arc<Mutex<Taken>>,
    /// Whoever waits hears of every request.
    pub(crate) came: Arc<Notify>,
    /// And of every connection that was closed.
    pub(crate) closed: Arc<Notify>,
}

impl Stand {
    pub(crate) async fn start(scripts: impl IntoIterator<Item = Script>) -> Stand {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let scripts: Arc<Mutex<VecDeque<Script>>> = Arc::new(Mutex::new(scripts.into_iter().collect()));
        let taken = Arc::new(Mutex::new(Taken::default()));
        let (came, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let stand = Stand { address, taken: taken.clone(), came: came.clone(), closed: closed.clone() };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                taken.lock().expect("a lock").connections += 1;
                let serving = serve(stream, scripts.clone(), taken.clone(), came.clone());
                let closed = closed.clone();
                tokio::spawn(async move {
                    serving.await;
                    closed.notify_one();
                });
            }
        });
        stand
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.taken.lock().expect("a lock").requests.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.taken.lock().expect("a lock").connections
    }
}

async fn serve(
    mut stream: TcpStream,
    scripts: Arc<Mutex<VecDeque<Script>>>,
    taken: Arc<Mutex<Taken>>,
    came: Arc<Notify>,
) {
    while let Some(request) = request(&mut stream).await {
        taken.lock().expect("a lock").requests.push(request);
        came.notify_one();
        let script = scripts.lock().expect("a lock").pop_front().expect("a script for every request");
        match script {
            Script::Say(answer) => stream.write_all(answer.as_bytes()).await.expect("the client reads"),
            Script::SayAndClose(answer) => {
                // The client may have stopped reading.
                let _ = stream.write_all(answer.as_bytes()).await;
                return;
            }
            Script::Hang => {}
        }
    }
}

/// A whole request as text; `None` at the end of the connection.
async fn request(stream: &mut TcpStream) -> Option<String> {
    let mut text = String::new();
    let mut buffer = [0; 4_096];
    loop {
        let read = stream.read(&mut buffer).await.ok().filter(|read| *read > 0)?;
        text.push_str(std::str::from_utf8(&buffer[..read]).expect("UTF-8"));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().expect("a number")) {
            return Some(text);
        }
    }
}

/// An answer that is signed.
pub(crate) fn signed(status: u16, body: &str, secret: &str, at: Timestamp) -> String {
    let mut headers = HeaderMap::new();
    let secret = ProviderSecret::parse(secret.to_owned()).expect("a secret");
    signing::sign(&mut headers, &secret, at, body.as_bytes());
    let headers: Vec<String> = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\r\n", value.to_str().expect("text")))
        .collect();
    raw(status, &headers.concat(), body)
}

/// An answer with these headers, each with its line break.
pub(crate) fn raw(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}
