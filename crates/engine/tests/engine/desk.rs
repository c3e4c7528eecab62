//! A provider that keeps its word except where a test says how it lies, and remembers what it really did.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use settle_domain::money::Decimal;
use settle_domain::time::Timestamp;
use settle_provider::provider::Provider;
use settle_provider::seen::{AnswerFault, LostFault, NotSentFault, Seen};
use settle_provider::wire::{
    Absence, Capabilities, Operation, OperationKind, OperationPage, OperationStatus, Problem, ProblemCode,
    Quote, QuoteRequest,
};
use tokio::sync::watch;
use uuid::Uuid;

/// How the desk treats one send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    /// Executes, and the answer is lost.
    Lost,
    /// Does not execute, and the answer is lost.
    Dropped,
    /// No byte reaches it.
    Unreached,
    /// Executes, and answers something unusable with status 500.
    Ghost,
    /// Accepts, and executes when it is looked up the second time.
    Pending,
    /// The same, and the answer is lost.
    PendingUnheard,
    /// Refuses for good.
    Refuse,
    /// Refuses, and executes when it is looked up once more than so many times.
    Flip(u32),
    /// Refuses, says at the first look-up that it is at it, and executes at the second.
    FlipToPending,
    /// Refuses because the quote has expired.
    Expired,
    /// The wallet is out of gas.
    OutOfGas,
    /// Turns the request away unsigned.
    Unauthorised,
    /// Says that another body came under this key.
    Conflict,
    /// Executes, for less than was asked.
    Short,
    /// Does not execute now, says that it does not know it, and executes at the second look-up.
    Late,
}

#[derive(Default)]
struct Inner {
    lies: HashMap<&'static str, VecDeque<Lie>>,
    known: HashMap<Uuid, Operation>,
    pending: HashMap<Uuid, u32>,
    late: HashMap<Uuid, (u32, OperationKind, Value)>,
    voided: HashSet<Uuid>,
    executed: Vec<(OperationKind, Uuid)>,
    sends: usize,
    look_ups: usize,
    voids: usize,
    questions: usize,
    quotes: u32,
    is_silent: bool,
    is_deaf: bool,
    is_slow: bool,
    /// With which status it turns us away, if it does.
    turns_away: Option<u16>,
    /// What it calls its memory, if that is not the first one.
    instance: Option<&'static str>,
    /// What it buys, and at which rate, if not as ever.
    buys: Option<(&'static str, &'static str)>,
    /// What it quotes for, if that is not what it was asked about.
    sells: Option<&'static str>,
    /// For how many seconds it promises to remember a key, if not for a day.
    promises: Option<u64>,
    /// When the operations that were sent to it say that they were.
    stamps: Vec<Timestamp>,
}

impl Inner {
    fn instance(&self) -> String {
        self.instance.unwrap_or("one").to_owned()
    }

    /// How much it buys, and at which rate.
    fn bought(&self) -> (Decimal, Decimal) {
        let (amount, rate) = self.buys.unwrap_or(("184.162062", "5.43"));
        (decimal(amount), decimal(rate))
    }
}

/// The desk.
#[derive(Default)]
pub struct Desk {
    inner: Mutex<Inner>,
    /// Counts what it was asked.
    asked: watch::Sender<u64>,
    /// The kind of operations whose answers it keeps back.
    kept_back: watch::Sender<Option<OperationKind>>,
    /// Whether it keeps back the answers to voids.
    voids_kept_back: watch::Sender<bool>,
}

impl Desk {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps back the answers to sends of a kind, which it treats as ever, until it is told otherwise.
    pub fn keep_back(&self, kind: Option<OperationKind>) {
        self.kept_back.send_replace(kind);
    }

    /// Promises to remember keys for so many seconds.
    pub fn promises(&self, seconds: u64) {
        self.inner().promises = Some(seconds);
    }

    /// Keeps back the answers to voids until it is told otherwise.
    pub fn keep_voids_back(&self, keeps: bool) {
        self.voids_kept_back.send_replace(keeps);
    }

    /// Forgets what it was sent, and calls its memory so from now on. What it has done stays done.
    pub fn forget(&self, instance: &'static str) {
        let mut inner = self.inner();
        inner.instance = Some(instance);
        inner.known.clear();
        inner.pending.clear();
    }

    fn stamped(&self, seen: Seen<Operation>) -> Seen<Operation> {
        match seen {
            Seen::Answered(operation) => {
                Seen::Answered(Operation { instance: self.inner().instance(), ..operation })
            }
            seen => seen,
        }
    }

    /// How often it was asked never to begin an operation.
    pub fn voids(&self) -> usize {
        self.inner().voids
    }

    /// Waits until something holds of the desk, which is looked at whenever it was asked something.
    pub async fn until(&self, is_so: impl Fn(&Desk) -> bool) {
        let mut asked = self.asked.subscribe();
        while !is_so(self) {
            asked.changed().await.expect("the desk lives");
        }
    }

    /// From now on it buys so much, at this rate.
    pub fn buys(&self, amount: &'static str, rate: &'static str) {
        self.inner().buys = Some((amount, rate));
    }

    /// What it quotes for from now on, if that is not what it is asked about.
    pub fn sells(&self, amount: Option<&'static str>) {
        self.inner().sells = amount;
    }

    /// When the operations that were sent to it say that they were.
    pub fn stamps(&self) -> Vec<Timestamp> {
        self.inner().stamps.clone()
    }

    /// How many quotes it gave.
    pub fn quotes(&self) -> u32 {
        self.inner().quotes
    }

    /// The next sends of a kind are treated like this, in turn.
    pub fn lies(&self, kind: OperationKind, lies: &[Lie]) {
        self.inner().lies.entry(kind.as_str()).or_default().extend(lies);
    }

    /// What it has really done: each operation as often as it was executed.
    pub fn executed(&self, kind: OperationKind) -> Vec<Uuid> {
        self.inner().executed.iter().filter(|(done, _)| *done == kind).map(|(_, id)| *id).collect()
    }

    /// How many operations were sent to it.
    pub fn sends(&self) -> usize {
        self.inner().sends
    }

    /// Whether it accepts our credentials neither for quotes nor for what it can do.
    pub fn turn_away(&self, turns_away: bool) {
        self.inner().turns_away = turns_away.then_some(401);
    }

    /// It says only after a moment what it can do.
    pub fn slow(&self) {
        self.inner().is_slow = true;
    }

    /// How often it was asked what it can do.
    pub fn questions(&self) -> usize {
        self.inner().questions
    }

    /// How often it was asked about an operation.
    pub fn look_ups(&self) -> usize {
        self.inner().look_ups
    }

    /// What it has done comes back.
    pub fn gives_back(&self, id: Uuid) {
        self.inner().known.get_mut(&id).expect("it was done").status = OperationStatus::Returned;
    }

    /// Somebody else looks an operation up, and hears what it answers.
    pub fn says(&self, id: Uuid) -> Option<OperationStatus> {
        self.inner().found(id).map(|found| found.status)
    }

    /// What it has done of a kind has come back.
    pub fn returns(&self, kind: OperationKind) {
        for known in self.inner().known.values_mut().filter(|known| known.kind == Some(kind)) {
            known.status = OperationStatus::Returned;
        }
    }

    /// Whether voids get no answer from now on, and no effect.
    pub fn deaf(&self, is_deaf: bool) {
        self.inner().is_deaf = is_deaf;
    }

    /// Whether look-ups get no answer from now on.
    pub fn silent(&self, is_silent: bool) {
        self.inner().is_silent = is_silent;
    }
}

impl Inner {
    fn execute(&mut self, kind: OperationKind, id: Uuid, body: &Value, is_short: bool) -> Operation {
        self.executed.push((kind, id));
        let mut operation = operation(kind, id, body, OperationStatus::Succeeded, is_short);
        operation.bought_amount = operation.bought_amount.map(|_| self.bought().0);
        self.known.insert(id, operation.clone());
        operation
    }

    fn found(&mut self, id: Uuid) -> Option<Operation> {
        if let Some((looks, kind, body)) = self.late.remove(&id) {
            if looks == 0 && !self.voided.contains(&id) {
                return Some(self.execute(kind, id, &body, false));
            }
            self.late.insert(id, (looks.saturating_sub(1), kind, body));
        }
        if let Some(looks) = self.pending.get_mut(&id) {
            *looks += 1;
            if *looks >= 2 {
                self.pending.remove(&id);
                let kind = self.known.get(&id)?.kind?;
                self.executed.push((kind, id));
                self.known.get_mut(&id)?.status = OperationStatus::Succeeded;
            }
        }
        self.known.get(&id).cloned()
    }
}

fn text(body: &Value, field: &str) -> Option<String> {
    body[field].as_str().map(str::to_owned)
}

fn decimal(text: &str) -> Decimal {
    text.parse().unwrap()
}

fn operation(
    kind: OperationKind,
    id: Uuid,
    body: &Value,
    status: OperationStatus,
    is_short: bool,
) -> Operation {
    let is_conversion = kind == OperationKind::Conversion;
    let (asset, amount) = if is_conversion { ("sell", "sell_amount") } else { ("asset", "amount") };
    let amount = if is_short { "0.01".to_owned() } else { text(body, amount).unwrap() };
    Operation {
        operation_id: id,
        instance: "one".to_owned(),
        kind: Some(kind),
        status,
        provider_reference: Some(format!("ref-{id}")),
        asset: text(body, asset),
        amount: Some(decimal(&amount)),
        bought_asset: if is_conversion { text(body, "buy") } else { None },
        bought_amount: is_conversion.then(|| decimal("184.162062")),
        destination_reference: text(body, "destination_reference"),
        code: None,
        reason: None,
    }
}

fn problem(code: ProblemCode, reason: Option<&str>) -> Problem {
    Problem { code, reason: reason.map(str::to_owned), operation_id: None }
}

fn refused(kind: OperationKind) -> Seen<Operation> {
    let code = match kind {
        OperationKind::Conversion => ProblemCode::ConversionRefused,
        OperationKind::Payout | OperationKind::Refund => ProblemCode::PayoutRefused,
    };
    Seen::Refused(problem(code, Some("the desk does not want to")))
}

impl Desk {
    /// Takes a request: what it does, and what it would answer.
    fn take(&self, kind: OperationKind, id: Uuid, body: &[u8]) -> Seen<Operation> {
        let body: Value = serde_json::from_slice(body).unwrap();
        let mut inner = self.inner();
        inner.sends += 1;
        let lie = inner.lies.get_mut(kind.as_str()).and_then(VecDeque::pop_front);
        if let Some(known) = inner.known.get(&id).cloned() {
            return Seen::Answered(known);
        }
        if inner.voided.contains(&id) {
            return Seen::Refused(problem(ProblemCode::PayoutRefused, Some("voided")));
        }
        match lie {
            None => Seen::Answered(inner.execute(kind, id, &body, false)),
            Some(Lie::Lost) => {
                inner.execute(kind, id, &body, false);
                Seen::NoAnswer(LostFault::Closed)
            }
            Some(Lie::Ghost) => {
                inner.execute(kind, id, &body, false);
                Seen::Unusable { status: 500, fault: AnswerFault::Status(500) }
            }
            Some(Lie::Short) => Seen::Answered(inner.execute(kind, id, &body, true)),
            Some(Lie::Dropped) => Seen::NoAnswer(LostFault::Timeout(Duration::from_secs(30))),
            Some(Lie::Unreached) => Seen::NotSent(NotSentFault::Dns),
            Some(lie @ (Lie::Pending | Lie::PendingUnheard)) => {
                let pending = operation(kind, id, &body, OperationStatus::Pending, false);
                inner.known.insert(id, pending.clone());
                inner.pending.insert(id, 0);
                match lie {
                    Lie::Pending => Seen::Answered(pending),
                    _ => Seen::NoAnswer(LostFault::Closed),
                }
            }
            Some(Lie::Refuse) => refused(kind),
            Some(Lie::Flip(looks)) => {
                inner.late.insert(id, (looks, kind, body));
                refused(kind)
            }
            Some(Lie::FlipToPending) => {
                inner.known.insert(id, operation(kind, id, &body, OperationStatus::Pending, false));
                inner.pending.insert(id, 0);
                refused(kind)
            }
            Some(Lie::Expired) => {
                Seen::Refused(problem(ProblemCode::ConversionRefused, Some(Problem::QUOTE_EXPIRED)))
            }
            Some(Lie::OutOfGas) => {
                Seen::Blocked { status: 409, problem: problem(ProblemCode::PayoutWalletOutOfGas, None) }
            }
            Some(Lie::Unauthorised) => Seen::TurnedAway { status: 401, problem: None },
            Some(Lie::Conflict) => Seen::Conflict(problem(ProblemCode::Conflict, None)),
            Some(Lie::Late) => {
                inner.late.insert(id, (1, kind, body));
                Seen::NoAnswer(LostFault::Closed)
            }
        }
    }
}

#[async_trait]
impl Provider for Desk {
    async fn quote(&self, request: &QuoteRequest, stamped_at: Timestamp) -> Seen<Quote> {
        if let Some(status) = self.inner().turns_away {
            return Seen::TurnedAway { status, problem: None };
        }
        self.inner().quotes += 1;
        self.asked.send_modify(|asked| *asked += 1);
        let (buy_amount, rate) = self.inner().bought();
        let sells = self.inner().sells.map(decimal);
        Seen::Answered(Quote {
            quote_id: format!("quote-{}", self.inner().quotes),
            sell_amount: sells.unwrap_or(request.sell_amount),
            buy_amount,
            rate: Some(rate),
            expires_at: stamped_at.plus(Duration::from_mins(1)),
            payin_reference: None,
            sell: None,
            buy: None,
        })
    }

    async fn send(&self, kind: OperationKind, id: Uuid, body: Bytes, at: Timestamp) -> Seen<Operation> {
        self.inner().stamps.push(at);
        let seen = self.stamped(self.take(kind, id, &body));
        self.asked.send_modify(|asked| *asked += 1);
        let mut kept_back = self.kept_back.subscribe();
        kept_back.wait_for(|kept| *kept != Some(kind)).await.expect("the desk lives");
        seen
    }

    async fn look_up(&self, id: Uuid, _at: Timestamp) -> Seen<Operation> {
        self.inner().look_ups += 1;
        self.asked.send_modify(|asked| *asked += 1);
        if self.inner().is_silent {
            return Seen::NoAnswer(LostFault::Closed);
        }
        let found = self.inner().found(id);
        match found {
            Some(found) => self.stamped(Seen::Answered(found)),
            None => Seen::Absent(Absence { operation_id: id, instance: self.inner().instance() }),
        }
    }

    async fn void(&self, id: Uuid, _at: Timestamp) -> Seen<Operation> {
        self.inner().voids += 1;
        self.asked.send_modify(|asked| *asked += 1);
        let mut kept_back = self.voids_kept_back.subscribe();
        kept_back.wait_for(|kept| !kept).await.expect("the desk lives");
        let mut inner = self.inner();
        if inner.is_deaf {
            return Seen::NoAnswer(LostFault::Closed);
        }
        if let Some(known) = inner.known.get(&id).cloned() {
            return Seen::Answered(known);
        }
        inner.voided.insert(id);
        let refused = Operation {
            operation_id: id,
            instance: inner.instance(),
            kind: None,
            status: OperationStatus::Refused,
            provider_reference: None,
            asset: None,
            amount: None,
            bought_asset: None,
            bought_amount: None,
            destination_reference: None,
            code: Some("payout_refused".to_owned()),
            reason: Some("voided".to_owned()),
        };
        inner.known.insert(id, refused.clone());
        Seen::Answered(refused)
    }

    async fn changes(&self, _since: Timestamp, _after: Option<&str>, _at: Timestamp) -> Seen<OperationPage> {
        Seen::NotSent(NotSentFault::Dns)
    }

    async fn capabilities(&self, _at: Timestamp) -> Seen<Capabilities> {
        self.inner().questions += 1;
        if self.inner().is_slow {
            // As over a network: others get on meanwhile.
            tokio::task::yield_now().await;
        }
        if let Some(status) = self.inner().turns_away {
            return Seen::TurnedAway { status, problem: None };
        }
        let inner = self.inner();
        Seen::Answered(Capabilities {
            instance: inner.instance(),
            sandbox: true,
            pairs: Vec::new(),
            assets: Vec::new(),
            idempotency_window_seconds: inner.promises.unwrap_or(86_400),
        })
    }
}
