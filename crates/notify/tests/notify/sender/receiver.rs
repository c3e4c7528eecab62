//! A receiver on loopback that answers as the test says, byte by byte.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// What the receiver does with a request once it has read it.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// Writes these bytes and waits for the next request.
    Answer(Vec<u8>),
    /// Writes these bytes, and then more without end.
    Flood(Vec<u8>),
    /// Writes these bytes and then nothing more, keeping the connection open.
    Hang(Vec<u8>),
    /// Writes these bytes and closes the connection.
    AnswerAndClose(Vec<u8>),
    /// Closes the connection.
    Close,
}

/// What the receiver does with each request, by its number.
type Script = Arc<dyn Fn(usize) -> Behaviour + Send + Sync>;

/// A receiver, and the requests that have reached it.
pub struct Receiver {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Receiver {
    /// A receiver that does the same with every request.
    pub async fn start(behaviour: Behaviour, tls: Option<TlsAcceptor>) -> Receiver {
        Receiver::doing(Arc::new(move |_| behaviour.clone()), tls).await
    }

    /// A receiver that has one behaviour for each request, whatever connection it comes over, and then closes
    /// connections.
    pub async fn script(behaviours: Vec<Behaviour>) -> Receiver {
        let behaviour = move |request: usize| behaviours.get(request).cloned().unwrap_or(Behaviour::Close);
        Receiver::doing(Arc::new(behaviour), None).await
    }

    async fn doing(behaviour: Script, tls: Option<TlsAcceptor>) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (connections, requests) = (receiver.connections.clone(), receiver.requests.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::SeqCst);
                let (behaviour, requests, tls) = (behaviour.clone(), requests.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => converse(stream, behaviour, requests).await,
                        Some(tls) => {
                            // A client that does not trust the certificate goes away during the handshake.
                            if let Ok(stream) = tls.accept(stream).await {
                                converse(stream, behaviour, requests).await;
                            }
                        }
                    }
                });
            }
        });
        receiver
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    behaviour: Script,
    requests: Arc<std::sync::Mutex<Vec<String>>>,
) {
    while let Some(request) = read_request(&mut stream).await {
        let number = {
            let mut requests = requests.lock().unwrap();
            requests.push(request);
            requests.len() - 1
        };
        match &behaviour(number) {
            Behaviour::Answer(bytes) => stream.write_all(bytes).await.unwrap(),
            Behaviour::Flood(head) => {
                stream.write_all(head).await.unwrap();
                // Ends when the client closes the connection.
                while stream.write_all(&[b'x'; 4_096]).await.is_ok() {}
                return;
            }
            Behaviour::Hang(bytes) => {
                stream.write_all(bytes).await.unwrap();
                stream.flush().await.unwrap();
                std::future::pending::<()>().await;
            }
            Behaviour::AnswerAndClose(bytes) => {
                stream.write_all(bytes).await.unwrap();
                stream.flush().await.unwrap();
                return;
            }
            Behaviour::Close => return,
        }
        stream.flush().await.unwrap();
    }
}

/// Reads one request with a `content-length`; `None` at the end of the connection.
async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4_096];
        let read = stream.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&chunk[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.parse().unwrap() {
            return Some(text);
        }
    }
}
