//! The merchants' receiver: it verifies every notification, counts it in the tally and answers with 200.

use std::convert::Infallible;
use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use settle_domain::seams::Clock;
use settle_verify::{Event, Verifier};
use settle_wiring::system::SystemClock;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};

use crate::load::number_of;
use crate::tally::SharedTally;

/// Connections open at once.
const CONNECTIONS_MAX: usize = 1_024;
/// The longest body that the receiver reads.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// A receiver that ends with the test.
pub struct Receiver {
    pub address: SocketAddr,
    pub tally: Arc<SharedTally>,
    release: watch::Sender<Held>,
    _runtime: Runtime,
}

impl Receiver {
    /// Listens on a port that the system chooses.
    pub fn start(merchants: usize) -> Receiver {
        let tally = Arc::new(SharedTally::default());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (release, held) = watch::channel(Held::Both);
        let desk = Arc::new(Desk {
            tally: tally.clone(),
            held,
            verifiers: (0..merchants).map(|merchant| Verifier::new(secret(merchant))).collect(),
        });
        runtime.spawn(accept(listener, desk));
        Receiver { address, tally, release, _runtime: runtime }
    }

    /// Waits until the tally has everything that a process sent before it died. No other process may be
    /// sending.
    pub fn drain(&self) {
        // The receiver accepts connections in order: behind this one the dead process has none left.
        let mut last = TcpStream::connect(self.address).expect("the receiver listens");
        last.shutdown(Shutdown::Write).expect("nothing more is said");
        last.read_to_end(&mut Vec::new()).expect("the receiver has nothing to say either");
        self.tally.wait("every connection has ended", |tally| tally.connections == 0);
    }

    /// Answers the first arrivals that it has held, with 500.
    pub fn release_first(&self) {
        self.release.send_replace(Held::Later);
    }

    /// Answers everything that it has held: later arrivals get 200.
    pub fn release(&self) {
        self.release.send_replace(Held::Neither);
    }

    /// The URL for the notifications of a merchant.
    pub fn url(&self, merchant: usize) -> String {
        format!("http://{}/{merchant}", self.address)
    }
}

/// The secret of a merchant.
pub fn secret(merchant: usize) -> String {
    format!("whsec-{merchant}-ключ")
}

/// Which of the arrivals in `to_hold` still wait for their answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Held {
    /// The first arrivals and the later ones.
    Both,
    /// Only the later ones.
    Later,
    Neither,
}

/// Takes and judges notifications.
struct Desk {
    tally: Arc<SharedTally>,
    held: watch::Receiver<Held>,
    verifiers: Vec<Verifier>,
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("it is never closed");
        let Ok((stream, peer)) = listener.accept().await else { continue };
        desk.tally.change(|tally| tally.connections += 1);
        let desk = desk.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| desk.receive(peer, request));
            let mut server = hyper::server::conn::http1::Builder::new();
            let connection = server.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
            // A process that was killed in the middle of a request leaves a broken one.
            let _ = connection.await;
            desk.tally.change(|tally| tally.connections -= 1);
            drop(place);
        });
    }
}

impl Desk {
    async fn receive(
        &self,
        peer: SocketAddr,
        request: Request<Incoming>,
    ) -> Result<Response<Empty<Bytes>>, Infallible> {
        let (parts, body) = request.into_parts();
        let status = match Limited::new(body, BODY_BYTES_MAX).collect().await {
            Ok(body) => {
                let taken = self.take(peer, &parts, &body.to_bytes());
                let mut held = self.held.clone();
                // A test ends with everything released, or with a panic.
                let _ = held.wait_for(|held| *held >= taken.when).await;
                taken.status
            }
            // The request is cut off: nobody waits for the answer.
            Err(_) => StatusCode::BAD_REQUEST,
        };
        let mut response = Response::new(Empty::new());
        *response.status_mut() = status;
        Ok(response)
    }

    fn take(&self, peer: SocketAddr, parts: &Parts, body: &[u8]) -> Taken {
        let merchant = parts.uri.path().strip_prefix('/').and_then(|merchant| merchant.parse().ok());
        let header = |name: &str| parts.headers.get(name)?.to_str().ok();
        let verified = merchant
            .and_then(|merchant: usize| self.verifiers.get(merchant))
            .ok_or_else(|| format!("nobody is at {}", parts.uri))
            .and_then(|verifier| verifier.verify(header, body, now()).map_err(|fault| fault.to_string()));
        self.tally.change(|tally| match verified {
            Ok(Event { delivery_id, settlement, .. }) => {
                let settlement = number_of(&settlement.settlement_id);
                let is_first = tally.arrived(&delivery_id, settlement);
                if !tally.to_hold.contains(&settlement) {
                    return Taken { status: StatusCode::OK, when: Held::Both };
                }
                tally.held.push((delivery_id, peer));
                if is_first {
                    Taken { status: StatusCode::INTERNAL_SERVER_ERROR, when: Held::Later }
                } else {
                    Taken { status: StatusCode::OK, when: Held::Neither }
                }
            }
            Err(fault) => {
                tally.faults.push(fault);
                Taken { status: StatusCode::BAD_REQUEST, when: Held::Both }
            }
        })
    }
}

/// The answer to a notification: its status, and what must be released before it is sent.
struct Taken {
    status: StatusCode,
    when: Held,
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(SystemClock.now().as_micros().unsigned_abs())
}
