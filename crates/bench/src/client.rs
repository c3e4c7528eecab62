//! A client that knows just enough HTTP to load the service: one connection, one request at a time.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 * 1_024;

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Client { stream, buffer: Vec::with_capacity(HEAD_BYTES_MAX) })
    }

    /// Posts a JSON document; returns the status.
    pub(crate) async fn post(&mut self, path: &str, token: &str, body: &str) -> io::Result<u16> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(body.as_bytes());
        self.stream.write_all(&request).await?;
        self.answer().await.map(|(status, _)| status)
    }

    /// Reads a path; returns the status and the length of the body.
    pub(crate) async fn get(&mut self, path: &str, token: &str) -> io::Result<(u16, usize)> {
        let head = format!("GET {path} HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {token}\r\n\r\n");
        self.stream.write_all(head.as_bytes()).await?;
        self.answer().await
    }

    /// Reads a path; returns the body, or an error unless the status is 200.
    pub(crate) async fn page(&mut self, path: &str, token: &str) -> io::Result<Vec<u8>> {
        let (status, length) = self.get(path, token).await?;
        if status != 200 {
            return Err(io::Error::other(format!("{path} was answered with {status}")));
        }
        Ok(self.buffer.split_off(self.buffer.len() - length))
    }

    async fn answer(&mut self) -> io::Result<(u16, usize)> {
        self.buffer.clear();
        let head = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if self.buffer.len() > HEAD_BYTES_MAX || self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let text = String::from_utf8_lossy(&self.buffer[..head]).to_ascii_lowercase();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        let length = text.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
        while self.buffer.len() < head + length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok((status, length))
    }
}
