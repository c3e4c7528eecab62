//! Posts settlements or payments. Each has a number, which its notification carries.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use settle_domain::ids::SettlementId;
use settle_domain::seams::Clock;
use settle_domain::settlement::{CompletedSettlement, parse, parse_object};
use settle_wiring::system::{SystemClock, SystemEntropy};
use tokio::sync::{Mutex, Semaphore, watch};

use crate::arrivals::Arrivals;
use crate::client::Client;
use crate::error::BenchError;
use crate::scratch::Shop;

/// How long a caller waits before it calls a service again that does not answer.
const RETRY: Duration = Duration::from_millis(5);
/// How long a caller repeats a failing call before it gives up.
const GIVE_UP: Duration = Duration::from_secs(30);
/// Connections of a steady rate: the operator's listener allows 64 of one address. A call that finds none
/// free waits for one.
const CONNECTIONS_MAX: usize = 32;
/// How long the last notification of a steady rate may take.
const LAST_ARRIVAL: Duration = Duration::from_secs(30);

/// What is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// Settlements that somebody else made.
    Settlements,
    /// Payments that the engine settles.
    Payments,
}

impl Posted {
    fn path(self) -> &'static str {
        match self {
            Posted::Settlements => "/operator/v1/settlements",
            Posted::Payments => "/operator/v1/payments",
        }
    }

    fn row(self, shop: &Shop, number: usize) -> String {
        match self {
            Posted::Settlements => settlement(shop, number),
            Posted::Payments => payment(shop, number),
        }
    }
}

/// One payment as JSON. No two have the same destination, so that the provider's list shows what was paid
/// twice.
fn payment(shop: &Shop, number: usize) -> String {
    let (whole, cents) = (100 + number % 9_000, number % 100);
    format!(
        "{{\"merchant_id\":\"{}\",\"payin_reference\":\"B{number}\",\"incoming_currency\":\"BRL\",\
         \"incoming_amount\":\"{whole}.{cents:02}\",\"outgoing_currency\":\"USDC\",\
         \"destination_reference\":\"0x9fc76417374aa880d4449a1f7f31ec597f{number:08}\"}}",
        shop.merchant_id
    )
}

/// One settlement as JSON; its notification has about 600 bytes.
pub(crate) fn settlement(shop: &Shop, number: usize) -> String {
    let now = SystemClock.now();
    let id = SettlementId::new(now, &SystemEntropy);
    format!(
        "{{\"merchant_id\":\"{}\",\"settlement_id\":\"{id}\",\"completed_at\":\"{now}\",\"occurred_at\":\"{now}\",\
         \"payin_reference\":\"B{number}\",\"payout_reference\":\
         \"0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b\",\
         \"destination_reference\":\"wallet-treasury\",\"incoming_currency\":\"BRL\",\
         \"incoming_amount\":\"1000.00\",\"outgoing_currency\":\"USDC\",\"outgoing_amount\":\"181.149631\",\
         \"conversion_rate\":\"5.43\",\"fixed_side\":\"incoming\",\"fee_percentage\":\"1.5\",\
         \"fee_percentage_amount\":\"2.762431\",\"fee_fixed\":\"0.250000\"}}",
        shop.merchant_id
    )
}

/// Settlements as the body of one call.
pub(crate) fn batch(shop: &Shop, numbers: std::ops::Range<usize>) -> String {
    format!("[{}]", numbers.map(|number| settlement(shop, number)).collect::<Vec<_>>().join(","))
}

/// The same settlement, parsed as the service parses it.
pub(crate) fn completed(shop: &Shop, number: usize) -> Result<CompletedSettlement, BenchError> {
    let object = parse_object(settlement(shop, number).as_bytes());
    let refused = |fault: &dyn std::fmt::Debug| BenchError::Failed(format!("a settlement: {fault:?}"));
    parse(&object.map_err(|fault| refused(&fault))?).map_err(|problems| refused(&problems))
}

/// Settlements or payments to post, and how many of them have been posted.
pub(crate) struct Load {
    pub(crate) posted: Posted,
    pub(crate) shops: Arc<Vec<Shop>>,
    pub(crate) token: String,
    pub(crate) number: usize,
    /// How many in one call.
    pub(crate) batch: usize,
    pub(crate) next: AtomicUsize,
    /// How many were in calls that were answered with 200.
    pub(crate) accepted: AtomicUsize,
}

impl Load {
    /// Settlements, from number 0 to `number`.
    pub(crate) fn new(shops: Arc<Vec<Shop>>, token: &str, number: usize, batch: usize) -> Arc<Load> {
        Load::of(Posted::Settlements, shops, token, 0..number, batch)
    }

    /// Those with these numbers.
    pub(crate) fn of(
        posted: Posted,
        shops: Arc<Vec<Shop>>,
        token: &str,
        numbers: std::ops::Range<usize>,
        batch: usize,
    ) -> Arc<Load> {
        let (next, accepted) = (AtomicUsize::new(numbers.start), AtomicUsize::new(0));
        Arc::new(Load { posted, shops, token: token.to_owned(), number: numbers.end, batch, next, accepted })
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// The body of the next call: a list, or one object.
    fn take(&self) -> Option<(usize, String)> {
        let first = self.next.fetch_add(self.batch, Ordering::Relaxed);
        if first >= self.number {
            return None;
        }
        let last = (first + self.batch).min(self.number);
        let row = |number: usize| self.posted.row(&self.shops[number % self.shops.len()], number);
        let mut rows = (first..last).map(row);
        if self.batch == 1 {
            return Some((1, rows.next()?));
        }
        Some((last - first, format!("[{}]", rows.collect::<Vec<_>>().join(","))))
    }

    /// Posts everything over this many connections. A failed call is repeated unchanged, at the address that
    /// the service has by then.
    pub(crate) async fn post(self: &Arc<Load>, callers: usize, address: watch::Receiver<SocketAddr>) {
        let callers: Vec<_> = (0..callers)
            .map(|_| {
                let (load, address) = (self.clone(), address.clone());
                tokio::spawn(async move {
                    let mut client = None;
                    while let Some((rows, body)) = load.take() {
                        if call(&mut client, || *address.borrow(), load.posted, &load.token, &body).await {
                            load.accepted.fetch_add(rows, Ordering::Relaxed);
                        }
                    }
                })
            })
            .collect();
        for caller in callers {
            let _ = caller.await;
        }
    }
}

/// Repeats a call until it is answered with 200, over a connection that it opens again after each failure.
/// Gives up when the service does not come back.
async fn call(
    client: &mut Option<Client>,
    address: impl Fn() -> SocketAddr,
    posted: Posted,
    token: &str,
    body: &str,
) -> bool {
    let deadline = Instant::now() + GIVE_UP;
    while Instant::now() < deadline {
        if client.is_none() {
            *client = Client::connect(address()).await.ok();
        }
        if let Some(connected) = client
            && connected.post(posted.path(), token, body).await.is_ok_and(|status| status == 200)
        {
            return true;
        }
        *client = None;
        tokio::time::sleep(RETRY).await;
    }
    false
}

/// One call of a steady rate; times are in microseconds on the clock of the arrivals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timed {
    /// When the call was made.
    pub(crate) at: u64,
    /// How long after that the notification arrived; `None` if it did not.
    pub(crate) took: Option<u64>,
}

/// Posts one by one at a steady rate, without waiting for answers. Returns when each call was
/// made and how long its notification took to arrive.
pub(crate) async fn at_rate(
    posted: Posted,
    shops: &Arc<Vec<Shop>>,
    token: &str,
    operator: SocketAddr,
    arrivals: &Arc<Arrivals>,
    numbers: std::ops::Range<usize>,
    per_second: u32,
) -> Vec<Timed> {
    let mut due = tokio::time::interval(Duration::from_secs(1) / per_second);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Burst);
    let (idle, places) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Semaphore::new(CONNECTIONS_MAX)));
    let mut calls = Vec::new();
    for number in numbers.clone() {
        due.tick().await;
        // The time starts here, so a call that waits for a connection counts the wait. It does not start when
        // the call was due: the timer may be late by a millisecond, which is not the service's fault.
        calls.push(arrivals.now());
        let body = posted.row(&shops[number % shops.len()], number);
        let (token, idle, places) = (token.to_owned(), idle.clone(), places.clone());
        tokio::spawn(async move {
            let Ok(_place) = places.acquire_owned().await else { return };
            let mut client = idle.lock().await.pop();
            call(&mut client, || operator, posted, &token, &body).await;
            idle.lock().await.extend(client);
        });
    }
    let first = numbers.start;
    arrivals.wait_for(numbers.end, LAST_ARRIVAL).await;
    let timed = |(position, at): (usize, u64)| {
        let took = arrivals.at(first + position).map(|arrived| arrived.saturating_sub(at));
        Timed { at, took }
    };
    calls.into_iter().enumerate().map(timed).collect()
}
