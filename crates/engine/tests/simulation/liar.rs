//! A provider that lies, and remembers what it really did: the only witness that the simulation believes.
//!
//! Its requests travel by themselves: they arrive although the node that sent them has died or given up, and
//! also after a look-up was told that there is no such operation. Its answers come late, out of order or not
//! at all. Its look-ups lag behind. It refuses a second request under a key that it has executed. It takes
//! back a refusal. It hints at what has become of an operation, late and more than once, or does not. What it
//! never does: execute a key twice, forget a void, or break its word about both.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use settle_domain::ids::OperationId;
use settle_domain::money::Decimal;
use settle_domain::quoting::ProviderQuote;
use settle_domain::time::Timestamp;
use settle_provider::seen::{AnswerFault, LostFault, NotSentFault, Seen};
use settle_provider::wire::{Operation, OperationKind, OperationStatus, Problem, ProblemCode};
use settle_testing::virtual_time::pass;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::world::World;

mod questions;

/// How long our client waits for an answer.
const TIMEOUT: Duration = Duration::from_millis(1_200);
/// How long a request travels at most; longer than the client waits.
const TRAVEL_MAX: Duration = Duration::from_millis(2_800);
/// How long an operation is pending at most.
const PENDING_MAX: Duration = Duration::from_millis(2_500);
/// How late a hint comes at most, and how many come at most.
const HINT_MAX: Duration = Duration::from_millis(1_500);
const HINTS_MAX: u64 = 3;
/// What is older or younger than this is turned away.
const TOLERANCE: Duration = Duration::from_mins(5);

/// What an operation really came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Truth {
    /// It never arrived, or was voided or refused, or is on its way.
    NotDone,
    /// It was executed as asked; a conversion bought this.
    Done(Option<Decimal>),
    /// It was executed otherwise; a conversion bought this.
    Otherwise(Option<Decimal>),
    /// It was executed, and the money came back.
    Returned,
}

/// Something that really happened.
#[derive(Debug, Clone)]
pub struct Execution {
    pub kind: OperationKind,
    pub operation_id: Uuid,
    pub amount: Decimal,
    pub quote_id: Option<String>,
    /// The provider had given its word that it would not: what follows from that is not ours.
    pub was_refused: bool,
    /// The money came back.
    pub came_back: bool,
}

struct Entry {
    kind: OperationKind,
    body: Bytes,
    /// What it was at which time: look-ups lag behind.
    history: Vec<(Instant, Operation)>,
    has_flipped: bool,
}

impl Entry {
    fn now(&self) -> Operation {
        self.history.last().expect("it has a beginning").1.clone()
    }
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<Uuid, Entry>,
    first_sends: BTreeMap<Uuid, Instant>,
    quotes: BTreeMap<String, ProviderQuote>,
    executions: Vec<Execution>,
    /// Requests and executions that are still to come.
    under_way: usize,
}

/// What becomes of a request that arrives for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Execute,
    Pending,
    PendingAndRefused,
    Refuse,
    Flip,
    Blocked,
    Broken,
    Short,
    Return,
}

pub struct Liar {
    name: &'static str,
    world: Arc<World>,
    /// Takes the hints.
    hints: mpsc::UnboundedSender<OperationId>,
    inner: Mutex<Inner>,
}

fn text(body: &Value, field: &str) -> Option<String> {
    body[field].as_str().map(str::to_owned)
}

fn problem(code: ProblemCode, reason: Option<&str>) -> Problem {
    Problem { code, reason: reason.map(str::to_owned), operation_id: None }
}

/// As long as a conversion is pending it has bought nothing.
fn as_told(now: Operation) -> Operation {
    let bought_amount = now.bought_amount.filter(|_| now.status != OperationStatus::Pending);
    Operation { bought_amount, ..now }
}

fn refusal(kind: OperationKind) -> ProblemCode {
    match kind {
        OperationKind::Conversion => ProblemCode::ConversionRefused,
        OperationKind::Payout | OperationKind::Refund => ProblemCode::PayoutRefused,
    }
}

impl Liar {
    pub fn new(
        name: &'static str,
        world: Arc<World>,
        hints: mpsc::UnboundedSender<OperationId>,
    ) -> Arc<Liar> {
        Arc::new(Liar { name, world, hints, inner: Mutex::default() })
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, line: impl std::fmt::Display) {
        self.world.tell(format_args!("  {} {line}", self.name));
    }

    /// Everything that it really did.
    pub fn executions(&self) -> Vec<Execution> {
        self.inner().executions.clone()
    }

    /// A quote that it gave.
    pub fn quote_of(&self, quote_id: &str) -> Option<ProviderQuote> {
        self.inner().quotes.get(quote_id).cloned()
    }

    /// Whether nothing is on its way any more.
    pub fn is_quiet(&self) -> bool {
        self.inner().under_way == 0
    }

    /// What an operation really came to.
    pub fn truth(&self, id: Uuid) -> Truth {
        let inner = self.inner();
        let begun = inner.entries.get(&id).filter(|entry| !entry.body.is_empty());
        let Some(entry) = begun else { return Truth::NotDone };
        let now = entry.now();
        let asked: Value = serde_json::from_slice(&entry.body).expect("a body");
        let field = if entry.kind == OperationKind::Conversion { "sell_amount" } else { "amount" };
        let is_short = now.amount.map(|amount| amount.to_string()) != text(&asked, field)
            || now.bought_amount.is_some_and(|bought| {
                let offer = text(&asked, "quote_id").and_then(|quote| inner.quotes.get(&quote).cloned());
                offer.is_some_and(|offer| bought != offer.buy_amount)
            });
        match now.status {
            OperationStatus::Succeeded if is_short => Truth::Otherwise(now.bought_amount),
            OperationStatus::Succeeded => Truth::Done(now.bought_amount),
            OperationStatus::Returned => Truth::Returned,
            OperationStatus::Pending | OperationStatus::Refused => Truth::NotDone,
        }
    }

    /// What it says of an operation now.
    pub fn status(&self, id: Uuid) -> Option<OperationStatus> {
        self.inner().entries.get(&id).map(|entry| entry.now().status)
    }

    fn travel(&self) -> Duration {
        let chance = &self.world.chance;
        let (is_slow, slow) = (self.world.fault(8), chance.up_to(TRAVEL_MAX));
        let usual = chance.up_to(Duration::from_millis(40));
        if is_slow { slow } else { usual }
    }

    /// A request: it arrives by itself, whatever becomes of who sent it.
    pub async fn send(
        self: &Arc<Liar>,
        kind: OperationKind,
        id: Uuid,
        body: Bytes,
        stamped_at: Timestamp,
    ) -> Seen<Operation> {
        if self.world.fault(20) {
            return Seen::NotSent(NotSentFault::Dns);
        }
        self.check_sent(id, &body).await;
        let (there, back) = (self.travel(), self.travel());
        let is_lost = self.world.fault(10);
        self.tell(format_args!("{kind:?} {id} is sent"));
        self.inner().under_way += 1;
        let (answer, answered) = oneshot::channel();
        let liar = self.clone();
        tokio::spawn(async move {
            pass(there).await;
            let seen = liar.arrive(kind, id, &body, stamped_at);
            liar.hint_at(id);
            liar.tell(format_args!("{kind:?} {id} has arrived: {}", seen.told()));
            liar.inner().under_way -= 1;
            pass(back).await;
            if !is_lost {
                let _ = answer.send(seen);
            }
        });
        match timeout(TIMEOUT, answered).await {
            Ok(Ok(seen)) => seen,
            Ok(Err(_)) => Seen::NoAnswer(LostFault::Closed),
            Err(_) => Seen::NoAnswer(LostFault::Timeout(TIMEOUT)),
        }
    }

    /// What must hold of every request: it was committed before, with these bytes, and its key is young.
    async fn check_sent(&self, id: Uuid, body: &Bytes) {
        let found = self.world.store.operation_find(OperationId(id), self.world.right.now()).await;
        match found {
            Ok(Some(row)) => {
                let request: settle_domain::operation::OperationRequest =
                    serde_json::from_str(&row.request).expect("a request");
                if Bytes::from(request.body(OperationId(id))) != body {
                    self.world.wrong(format_args!("{id} is sent with other bytes than were committed"));
                }
            }
            Ok(None) => self.world.wrong(format_args!("{id} is sent before it is committed")),
            Err(_) => {}
        }
        let mut inner = self.inner();
        let first = *inner.first_sends.entry(id).or_insert_with(Instant::now);
        if first.elapsed() > self.world.window {
            drop(inner);
            self.world.wrong(format_args!("{id} is sent when its key may be forgotten"));
        }
    }

    fn arrive(
        self: &Arc<Liar>,
        kind: OperationKind,
        id: Uuid,
        body: &Bytes,
        stamped_at: Timestamp,
    ) -> Seen<Operation> {
        if let Some(problem) = self.turned_away(stamped_at) {
            return problem;
        }
        let known = self.inner().entries.get(&id).map(|entry| (entry.body.clone(), entry.now()));
        if let Some((known, now)) = known {
            if !known.is_empty() && known != *body {
                return Seen::Conflict(problem(ProblemCode::Conflict, None));
            }
            if self.world.fault(3) {
                return match self.world.chance.below(3) {
                    0 => Seen::Blocked { status: 409, problem: problem(ProblemCode::RailInactive, None) },
                    _ => Seen::Refused(problem(refusal(kind), Some("not enough money"))),
                };
            }
            return Self::answer(kind, now);
        }
        let asked: Value = serde_json::from_slice(body).expect("a body");
        if let Some(quote) = text(&asked, "quote_id") {
            let is_over = self.quote_of(&quote).is_none_or(|offer| offer.expires_at < self.world.right.now());
            if is_over {
                self.begin(kind, id, body, OperationStatus::Refused);
                return Seen::Refused(problem(ProblemCode::ConversionRefused, Some(Problem::QUOTE_EXPIRED)));
            }
        }
        let fate = self.fate(kind);
        let seen = self.treat(fate, kind, id, body);
        self.tell(format_args!("{kind:?} {id}: {fate:?}"));
        if self.world.fault(12) {
            return Seen::Unusable { status: 500, fault: AnswerFault::Status(500) };
        }
        seen
    }

    fn fate(&self, kind: OperationKind) -> Fate {
        let is_usual = self.world.chance.once_in(2) || self.world.is_calm();
        let fates = [
            Fate::Pending,
            Fate::Pending,
            Fate::PendingAndRefused,
            Fate::Refuse,
            Fate::Flip,
            Fate::Blocked,
            Fate::Broken,
            Fate::Short,
            Fate::Return,
        ];
        let fate = *self.world.chance.pick(&fates);
        match fate {
            _ if is_usual => Fate::Execute,
            Fate::Return if kind == OperationKind::Conversion => Fate::Execute,
            fate => fate,
        }
    }

    fn treat(self: &Arc<Liar>, fate: Fate, kind: OperationKind, id: Uuid, body: &Bytes) -> Seen<Operation> {
        let later = self.world.chance.up_to(PENDING_MAX);
        match fate {
            Fate::Execute | Fate::Short | Fate::Return => {
                self.begin(kind, id, body, OperationStatus::Pending);
                self.execute(id, fate == Fate::Short);
                if fate == Fate::Return {
                    self.turns(id, later, move |liar| liar.give_back(id));
                }
            }
            Fate::Pending => {
                self.begin(kind, id, body, OperationStatus::Pending);
                self.turns(id, later, move |liar| liar.execute(id, false));
            }
            Fate::PendingAndRefused => {
                self.begin(kind, id, body, OperationStatus::Pending);
                self.turns(id, later, move |liar| {
                    liar.becomes(id, |now| now.status = OperationStatus::Refused);
                });
            }
            Fate::Refuse => self.begin(kind, id, body, OperationStatus::Refused),
            Fate::Flip => {
                self.begin(kind, id, body, OperationStatus::Refused);
                self.inner().entries.get_mut(&id).expect("it has begun").has_flipped = true;
                self.turns(id, later, move |liar| liar.execute(id, false));
            }
            Fate::Blocked => {
                let code = ProblemCode::PayoutWalletOutOfGas;
                return Seen::Blocked { status: 409, problem: problem(code, None) };
            }
            Fate::Broken => return Seen::Unusable { status: 500, fault: AnswerFault::Status(500) },
        }
        let now = self.inner().entries[&id].now();
        Self::answer(kind, now)
    }

    fn answer(kind: OperationKind, now: Operation) -> Seen<Operation> {
        match now.status {
            OperationStatus::Refused => Seen::Refused(problem(refusal(kind), now.reason.as_deref())),
            _ => Seen::Answered(as_told(now)),
        }
    }

    fn begin(&self, kind: OperationKind, id: Uuid, body: &Bytes, status: OperationStatus) {
        let asked: Value = serde_json::from_slice(body).expect("a body");
        let is_conversion = kind == OperationKind::Conversion;
        let (asset, amount) = if is_conversion { ("sell", "sell_amount") } else { ("asset", "amount") };
        let offer = text(&asked, "quote_id").and_then(|quote| self.quote_of(&quote));
        let operation = Operation {
            operation_id: id,
            instance: "one".to_owned(),
            kind: Some(kind),
            status,
            provider_reference: Some(format!("ref-{id}")),
            asset: text(&asked, asset),
            amount: text(&asked, amount).and_then(|amount| amount.parse().ok()),
            bought_asset: if is_conversion { text(&asked, "buy") } else { None },
            bought_amount: offer.map(|offer| offer.buy_amount),
            destination_reference: text(&asked, "destination_reference"),
            code: None,
            reason: None,
        };
        let entry = Entry {
            kind,
            body: body.clone(),
            history: vec![(Instant::now(), operation)],
            has_flipped: false,
        };
        self.inner().entries.insert(id, entry);
    }

    fn becomes(&self, id: Uuid, change: impl FnOnce(&mut Operation)) {
        let mut inner = self.inner();
        let entry = inner.entries.get_mut(&id).expect("it has begun");
        let mut now = entry.now();
        change(&mut now);
        entry.history.push((Instant::now(), now));
    }

    /// It happens, for real.
    fn execute(&self, id: Uuid, is_short: bool) {
        let less = |amount: Decimal| Decimal::new(amount.coefficient() / 2, amount.scale());
        self.becomes(id, |now| {
            now.status = OperationStatus::Succeeded;
            match now.bought_amount {
                Some(bought) if is_short => now.bought_amount = less(bought),
                None if is_short => now.amount = now.amount.and_then(less),
                _ => {}
            }
        });
        let mut inner = self.inner();
        let entry = &inner.entries[&id];
        let asked: Value = serde_json::from_slice(&entry.body).expect("a body");
        let execution = Execution {
            kind: entry.kind,
            operation_id: id,
            amount: entry.now().amount.expect("it has one"),
            quote_id: text(&asked, "quote_id"),
            was_refused: entry.has_flipped,
            came_back: false,
        };
        inner.executions.push(execution);
        drop(inner);
        self.tell(format_args!("{id} IS EXECUTED"));
    }

    fn give_back(&self, id: Uuid) {
        self.becomes(id, |now| now.status = OperationStatus::Returned);
        self.tell(format_args!("{id} comes back"));
        for execution in &mut self.inner().executions {
            execution.came_back |= execution.operation_id == id;
        }
    }

    fn later(self: &Arc<Liar>, after: Duration, work: impl FnOnce(&Arc<Liar>) + Send + 'static) {
        self.inner().under_way += 1;
        let liar = self.clone();
        tokio::spawn(async move {
            pass(after).await;
            work(&liar);
            liar.inner().under_way -= 1;
        });
    }

    /// Something becomes of an operation later.
    fn turns(self: &Arc<Liar>, id: Uuid, after: Duration, work: impl FnOnce(&Liar) + Send + 'static) {
        self.later(after, move |liar| {
            work(liar);
            liar.hint_at(id);
        });
    }

    /// Hints, or does not, that something may have become of an operation.
    fn hint_at(self: &Arc<Liar>, id: Uuid) {
        for _ in 0..self.world.chance.below(HINTS_MAX + 1) {
            self.later(self.world.chance.up_to(HINT_MAX), move |liar| {
                // Nobody takes hints when all is over.
                let _ = liar.hints.send(OperationId(id));
            });
        }
    }

    fn turned_away<T>(&self, stamped_at: Timestamp) -> Option<Seen<T>> {
        let off = (self.world.right.now().as_micros() - stamped_at.as_micros()).unsigned_abs();
        (Duration::from_micros(off) > TOLERANCE).then(|| {
            let problem = problem(ProblemCode::Unauthenticated, None);
            Seen::TurnedAway { status: 401, problem: Some(problem) }
        })
    }
}
