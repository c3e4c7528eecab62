//! The bounds of the settings hold on the listeners of a running service.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use settle_testing::binary::Settle;
use settle_testing::serving::{Answer, PATIENCE, Serving, answer, send};

use crate::BINARY;

/// The most wrong credentials of a test. The defaults allow more.
const GUESSES_MAX: usize = 50;

/// Where a service listens, a path there that asks for a credential, and one that nobody has.
#[derive(Clone, Copy)]
struct Door {
    address: SocketAddr,
    path: &'static str,
    wrong: &'static str,
}

/// The doors of the merchant API and of the operator's listener.
fn doors(api: SocketAddr, operator: SocketAddr) -> [Door; 2] {
    [
        Door { address: api, path: "/v1/webhook", wrong: "Bearer sk_00" },
        Door { address: operator, path: "/operator/v1/merchants", wrong: "Bearer op_00" },
    ]
}

impl Door {
    /// Gives a wrong credential, and says for whom, as a proxy does.
    fn guess(self, forwarded_for: &str) -> Answer {
        let headers = [("authorization", self.wrong), ("x-forwarded-for", forwarded_for)];
        answer(send(self.address, "GET", self.path, &headers, ""))
    }
}

/// Gives wrong credentials until one is refused without a look; returns how many were looked at, and the
/// refusal. On a slow machine more are looked at: meanwhile their source gains guesses.
fn exhaust(guess: impl Fn(usize) -> Answer) -> (usize, Answer) {
    for looked_at in 0..GUESSES_MAX {
        let answer = guess(looked_at);
        if answer.status != 401 {
            return (looked_at, answer);
        }
    }
    panic!("{GUESSES_MAX} wrong credentials were looked at");
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the service listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
    stream
}

/// Reads until the service ends the connection.
fn read_to_end(mut stream: TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the service ends the connection");
    bytes
}

/// That the other side has ended the connection is no fault.
fn unless_ended(fault: Error) -> Result<(), Error> {
    let has_ended = matches!(fault.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe);
    if has_ended { Ok(()) } else { Err(fault) }
}

#[test]
fn a_source_has_as_many_connections_as_the_settings_say() {
    // Nothing ends because of a time limit.
    let settle = Settle::sqlite(BINARY)
        .with("SETTLE_API__HEADER_TIMEOUT", "1h")
        .with("SETTLE_API__CONNECTIONS_PER_SOURCE", "2");
    let (serving, api, _) = Serving::ready(&settle);
    let [first, second, third] = [(); 3].map(|()| connect(api));
    assert_eq!(read_to_end(first), b"", "it gave its place to the third");
    for mut stream in [second, third] {
        let request = b"GET /healthz HTTP/1.1\r\nhost: settle\r\nconnection: close\r\n\r\n";
        stream.write_all(request).expect("the service reads");
        assert_eq!(answer(stream).status, 200);
    }
    serving.stop();
}

/// Whoever is no proxy cannot choose its source: each guess names another.
#[test]
fn a_source_has_as_many_guesses_as_the_settings_say() {
    let settle = Settle::sqlite(BINARY)
        .with("SETTLE_API__WRONG_CREDENTIALS_PER_SECOND", "1")
        .with("SETTLE_API__WRONG_CREDENTIALS_BURST", "6");
    let (serving, api, operator) = Serving::ready(&settle);
    for door in doors(api, operator) {
        let (looked_at, refused) = exhaust(|number| door.guess(&format!("192.0.2.{number}")));
        assert!(looked_at >= 6, "{looked_at}: {refused:?}");
        assert_eq!(refused.status, 429, "{refused:?}");
        assert_eq!(refused.header("ratelimit-policy"), Some("\"wrong-credentials\";q=6;w=6"));
    }
    serving.stop();
}

#[test]
fn behind_a_proxy_of_the_settings_each_source_has_guesses_of_its_own() {
    let settle = Settle::sqlite(BINARY)
        .with("SETTLE_API__TRUSTED_PROXIES", "127.0.0.0/8")
        .with("SETTLE_API__WRONG_CREDENTIALS_PER_SECOND", "1")
        .with("SETTLE_API__WRONG_CREDENTIALS_BURST", "3");
    let (serving, api, operator) = Serving::ready(&settle);
    for door in doors(api, operator) {
        let (_, refused) = exhaust(|_| door.guess("192.0.2.1"));
        assert_eq!(refused.status, 429, "{refused:?}");
        for other in ["192.0.2.2", "192.0.2.3", "192.0.2.4"] {
            assert_eq!(door.guess(other).status, 401, "{other} has guesses of its own");
        }
    }
    serving.stop();
}

/// The default would end it too, only later: that the setting counts is tested where the bounds are made from
/// the settings, beside `settle serve`.
#[test]
fn a_head_that_never_ends_ends_its_connection() {
    let settle = Settle::sqlite(BINARY).with("SETTLE_API__HEADER_TIMEOUT", "1s");
    let (serving, api, operator) = Serving::ready(&settle);
    let unfinished = [api, operator].map(|address| {
        let mut stream = connect(address);
        // On a machine that stood still the connection has ended before this comes.
        let sent = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: set");
        sent.or_else(unless_ended).expect("the service reads");
        stream
    });
    for mut stream in unfinished {
        let read = stream.read_to_end(&mut Vec::new()).map(drop);
        read.or_else(unless_ended).expect("the service ends the connection");
    }
    serving.stop();
}
