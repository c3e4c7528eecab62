//! The benchmark's receiver of notifications: it does as little work as possible, and notes when each
//! arrived.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::progress::Progress;

/// The text before a settlement's number in its notification.
const MARK: &[u8] = b"\"payin_reference\":\"B";
/// Endpoints, each on a port of its own; merchants are spread over them.
const ENDPOINTS: usize = 8;
/// The path whose requests get no answer: the sender gives up first.
pub(crate) const HANGING_PATH: &str = "/hang";

/// The notifications that have arrived, by the number of the settlement.
pub(crate) struct Arrivals {
    started: Instant,
    /// When each arrived first, in microseconds after the start; 0 if it has not arrived.
    first: Vec<AtomicU64>,
    times: Vec<AtomicU32>,
    unique: AtomicUsize,
    total: AtomicUsize,
    last: AtomicU64,
    changed: Notify,
    progress: Progress,
}

impl Arrivals {
    /// Room for this many notifications, none of which has arrived.
    pub(crate) fn of(number: usize, progress: &Progress) -> Arc<Arrivals> {
        Arc::new(Arrivals {
            started: Instant::now(),
            first: (0..number).map(|_| AtomicU64::new(0)).collect(),
            times: (0..number).map(|_| AtomicU32::new(0)).collect(),
            unique: AtomicUsize::new(0),
            total: AtomicUsize::new(0),
            last: AtomicU64::new(0),
            changed: Notify::new(),
            progress: progress.clone(),
        })
    }

    fn note(&self, number: usize) {
        let Some((first, times)) = self.first.get(number).zip(self.times.get(number)) else { return };
        let now = self.now();
        self.total.fetch_add(1, Ordering::Relaxed);
        if times.fetch_add(1, Ordering::Relaxed) == 0 {
            first.store(now, Ordering::Relaxed);
            self.last.fetch_max(now, Ordering::Relaxed);
            let unique = self.unique.fetch_add(1, Ordering::Relaxed) + 1;
            if unique.is_multiple_of(64) || unique == self.first.len() {
                self.changed.notify_waiters();
                self.progress.at(unique);
            }
        }
    }

    /// Microseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
    }

    /// When a settlement's notification arrived first.
    pub(crate) fn at(&self, number: usize) -> Option<u64> {
        self.first.get(number).map(|first| first.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// When the last notification arrived that was not a repetition.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// How many different notifications arrived, and how many with repetitions.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.unique.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Waits for this many different notifications, as long as one arrives within the limit after the one
    /// before. Returns how many there are.
    pub(crate) async fn wait_for(&self, number: usize, limit: Duration) -> usize {
        let mut newest = (0, Instant::now());
        loop {
            let unique = self.counts().0;
            if unique > newest.0 {
                newest = (unique, Instant::now());
            }
            if unique >= number || newest.1.elapsed() > limit {
                return unique;
            }
            let _ = tokio::time::timeout(Duration::from_millis(20), self.changed.notified()).await;
        }
    }

    /// When each notification arrived first, in ascending order.
    pub(crate) fn times(&self) -> Vec<u64> {
        let mut times: Vec<u64> = (0..self.first.len()).filter_map(|number| self.at(number)).collect();
        times.sort_unstable();
        times
    }
}

/// Listens for notifications until the runtime ends. Returns the addresses of the endpoints.
pub(crate) async fn receive(arrivals: Arc<Arrivals>) -> std::io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for _ in 0..ENDPOINTS {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        addresses.push(listener.local_addr()?);
        let arrivals = arrivals.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let arrivals = arrivals.clone();
                let _ = stream.set_nodelay(true);
                tokio::spawn(async move {
                    let service = service_fn(move |request| take(request, arrivals.clone()));
                    // A client that goes away in the middle is not our fault.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
    }
    Ok(addresses)
}

async fn take(
    request: Request<Incoming>,
    arrivals: Arc<Arrivals>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let hangs = request.uri().path() == HANGING_PATH;
    if let Ok(body) = request.into_body().collect().await {
        if hangs {
            std::future::pending::<()>().await;
        }
        if let Some(number) = number_in(&body.to_bytes()) {
            arrivals.note(number);
        }
    }
    Ok(Response::new(Empty::new()))
}

/// The number of the settlement in a notification.
fn number_in(body: &[u8]) -> Option<usize> {
    let start = body.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let digits = body[start..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(None, |number: Option<usize>, digit| {
        number.unwrap_or(0).checked_mul(10)?.checked_add(usize::from(digit - b'0'))
    })
}
