//! All operations in memory: which answer each call gets, and what is written down for it.
//!
//! A change is a whole record: it is appended to the journal and then applied, here as well as when the file
//! is read again, so that memory after a restart is what it was.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::num::NonZeroUsize;

use lru::LruCache;
use settle_domain::money::Decimal;
use settle_domain::time::Timestamp;
use settle_provider::wire::{Operation, OperationStatus, Problem, ProblemCode};
use uuid::Uuid;

mod begin;
mod lists;

pub(crate) use lists::Execution;

use crate::behaviour::Behaviour;
use crate::broken::Broken;
use crate::journal::{Entry, Journal};
use crate::rates::Rates;
use crate::record::{Asked, Record};

/// Operations and quotes whose calls are counted; the longest unused is forgotten first.
const COUNTED_MAX: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();
/// The reason of what was voided.
const VOIDED: &str = "voided";

/// What a call is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// 200 or, while it is pending, 202.
    Operation(Box<Operation>),
    /// A problem with this status.
    Problem(u16, Problem),
    /// 404.
    Absent(Uuid),
    /// 200 with something that is not an operation.
    Garbage,
    /// The connection ends without an answer.
    Cut,
    /// The connection stays open without an answer.
    Hang,
}

/// A reply, and the line of the journal that must be on the disk before it is given.
pub(crate) type Held<T> = (T, u64);

struct Stored {
    record: Record,
    /// Where it stands in the list of changes.
    change: usize,
    /// The last line of the journal about it.
    line: u64,
}

pub(crate) struct Ledger {
    pub(crate) instance: String,
    pub(crate) rates: Rates,
    pub(crate) gas_filled: bool,
    broken: Option<Broken>,
    /// Whether it says that no real money moves.
    pub(crate) says_sandbox: bool,
    stored: HashMap<Uuid, Stored>,
    /// Every change in the order of its time; an operation's last one counts.
    changes: Vec<(Timestamp, Uuid)>,
    /// What was executed, in the order of its first execution.
    executed: Vec<Uuid>,
    due: BinaryHeap<Reverse<(Timestamp, Uuid)>>,
    /// Pay-ins whose conversion was once refused because its quote had expired.
    expired: HashSet<String>,
    calls: LruCache<String, u32>,
    last_line: u64,
    instance_line: u64,
}

impl Ledger {
    pub(crate) fn new(instance: String) -> Ledger {
        Ledger {
            instance,
            rates: Rates::default(),
            gas_filled: false,
            broken: None,
            says_sandbox: true,
            stored: HashMap::new(),
            changes: Vec::new(),
            executed: Vec::new(),
            due: BinaryHeap::new(),
            expired: HashSet::new(),
            calls: LruCache::new(COUNTED_MAX),
            last_line: 0,
            instance_line: 0,
        }
    }

    #[cfg(feature = "testing")]
    pub(crate) fn break_it(&mut self, broken: Broken) {
        self.broken = Some(broken);
    }

    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// Takes a line of the journal in.
    pub(crate) fn apply(&mut self, entry: Entry, line: u64) {
        self.last_line = line;
        match entry {
            Entry::Instance(instance) => (self.instance, self.instance_line) = (instance, line),
            Entry::Rate { sell, buy, rate } => self.rates.set((&sell, &buy), rate),
            Entry::Gas { filled } => self.gas_filled = filled,
            Entry::Operation { at, record } => self.apply_record(Timestamp::from_micros(at), *record, line),
        }
    }

    fn apply_record(&mut self, at: Timestamp, record: Record, line: u64) {
        // A clock that stepped back must not put a change before others: whoever has read so far would miss
        // it.
        let at = self.changes.last().map_or(at, |(last, _)| at.max(*last));
        let id = record.operation_id;
        let times_before = self.stored.get(&id).map_or(0, |stored| stored.record.times);
        if times_before == 0 && record.times > 0 {
            self.executed.push(id);
        }
        if let Some(due) = record.due_at() {
            self.due.push(Reverse((due, id)));
        }
        if let Some(Asked::Conversion(request)) = &record.asked
            && record.reason.as_deref() == Some(Problem::QUOTE_EXPIRED)
        {
            self.expired.insert(request.payin_reference.clone());
        }
        self.changes.push((at, id));
        self.stored.insert(id, Stored { record, change: self.changes.len() - 1, line });
    }

    /// Writes an entry down and takes it in.
    pub(crate) fn record(&mut self, entry: Entry, journal: &Journal) -> u64 {
        let line = journal.append(&entry);
        self.apply(entry, line);
        line
    }

    /// The line that named this memory.
    pub(crate) fn first_line(&self) -> u64 {
        self.instance_line
    }

    fn change(&mut self, record: Record, now: Timestamp, journal: &Journal) {
        self.record(Entry::Operation { at: now.as_micros(), record: Box::new(record) }, journal);
    }

    /// Lets happen whatever was due by now.
    pub(crate) fn advance(&mut self, now: Timestamp, journal: &Journal) {
        while let Some(Reverse((due, id))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            let changed = self.stored.get(&id).map(|stored| &stored.record);
            // A void has taken away what was due.
            if let Some(changed) = changed.filter(|record| record.due_at() == Some(due)).map(Record::changed)
            {
                self.change(changed, now, journal);
            }
        }
    }

    /// The answer to a request for an operation.
    pub(crate) fn operate(&mut self, asked: Asked, now: Timestamp, journal: &Journal) -> Held<Reply> {
        self.advance(now, journal);
        let (id, behaviour) = (asked.operation_id(), asked.behaviour());
        if let Some(stored) = self.stored.get(&id) {
            let is_same = stored.record.asked.as_ref() == Some(&asked);
            match &stored.record.asked {
                None if self.is(Broken::VoidDoesNotHold) => {}
                None => return (refusal(&stored.record, &asked), stored.line),
                Some(_) if is_same && self.is(Broken::ForgetsKeys) => {}
                Some(_) if is_same || self.is(Broken::AcceptsOtherBodies) => {
                    if self.is(Broken::ExecutesTwice) && stored.record.times > 0 {
                        let again = Record { times: stored.record.times + 1, ..stored.record.clone() };
                        self.change(again, now, journal);
                    }
                    return self.answer(id, behaviour);
                }
                Some(_) => return (conflict(id), stored.line),
            }
        }
        if let Some(reply) = self.stumble(&id.to_string(), behaviour, Some(id)) {
            return (reply, 0);
        }
        let record = self.begin(asked, behaviour, now);
        self.change(record, now, journal);
        self.answer(id, behaviour)
    }

    /// What keeps a call from being executed, this time.
    pub(crate) fn stumble(&mut self, counted: &str, behaviour: Behaviour, id: Option<Uuid>) -> Option<Reply> {
        let problem = |status, code, reason: &str| {
            Reply::Problem(status, Problem { code, reason: Some(reason.to_owned()), operation_id: id })
        };
        match behaviour {
            Behaviour::Gas if !self.gas_filled => {
                let reason = "the wallet is empty: PUT /sandbox/gas {\"filled\": true}";
                Some(problem(409, ProblemCode::PayoutWalletOutOfGas, reason))
            }
            Behaviour::Lost if self.count(counted) == 1 => {
                Some(problem(500, ProblemCode::InternalError, "lost, and not executed"))
            }
            Behaviour::Flaky => match self.count(counted) {
                1 => Some(Reply::Cut),
                2 => Some(problem(503, ProblemCode::ProviderUnavailable, "try again later")),
                _ => None,
            },
            _ => None,
        }
    }

    fn count(&mut self, counted: &str) -> u32 {
        let calls = self.calls.get_or_insert_mut(counted.to_owned(), || 0);
        *calls += 1;
        *calls
    }

    /// The answer to a request whose operation is known, the first time as well as later.
    fn answer(&self, id: Uuid, behaviour: Behaviour) -> Held<Reply> {
        let Some(Stored { record, line, .. }) = self.stored.get(&id) else {
            return (Reply::Absent(id), self.last_line);
        };
        let reply = match (behaviour, record.status, &record.asked) {
            _ if record.is_on_its_way() => Reply::Cut,
            (_, OperationStatus::Refused, Some(asked)) => refusal(record, asked),
            (Behaviour::Timeout, ..) => Reply::Hang,
            (Behaviour::Garbage, ..) => Reply::Garbage,
            (Behaviour::Ghost, ..) => {
                let reason = Some("executed, and the answer is lost".to_owned());
                let code = ProblemCode::InternalError;
                Reply::Problem(500, Problem { code, reason, operation_id: Some(id) })
            }
            _ => self.told(record),
        };
        (reply, *line)
    }

    fn told(&self, record: &Record) -> Reply {
        let mut operation = record.operation(&self.instance);
        if self.is(Broken::RoundsAmounts) {
            operation.amount = operation.amount.and_then(cents);
        }
        Reply::Operation(Box::new(operation))
    }

    /// The answer to a look-up.
    pub(crate) fn look_up(&mut self, id: Uuid, now: Timestamp, journal: &Journal) -> Held<Reply> {
        self.advance(now, journal);
        match self.stored.get(&id) {
            Some(Stored { record, line, .. }) if !record.is_on_its_way() => {
                let is_slow =
                    record.asked.as_ref().is_some_and(|asked| asked.behaviour() == Behaviour::Timeout);
                if is_slow && self.is(Broken::LookUpLies) {
                    return (Reply::Absent(id), *line);
                }
                (self.told(record), *line)
            }
            _ => (Reply::Absent(id), self.last_line),
        }
    }

    /// Makes sure that what was not begun never will be; what was begun stays as it is.
    pub(crate) fn void(&mut self, id: Uuid, now: Timestamp, journal: &Journal) -> Held<Reply> {
        self.advance(now, journal);
        if let Some(Stored { record, line, .. }) = self.stored.get(&id)
            && !record.is_on_its_way()
        {
            return (self.told(record), *line);
        }
        let asked = self.stored.get(&id).and_then(|stored| stored.record.asked.clone());
        let record = Record {
            operation_id: id,
            status: OperationStatus::Refused,
            provider_reference: format!("sandbox-{}", self.changes.len() + 1),
            amount: asked.as_ref().map(Asked::amount),
            bought: None,
            code: asked.as_ref().map(Asked::refusal),
            reason: Some(VOIDED.to_owned()),
            times: 0,
            due: None,
            asked,
        };
        self.change(record.clone(), now, journal);
        (self.told(&record), self.last_line)
    }
}

fn refusal(record: &Record, asked: &Asked) -> Reply {
    Reply::Problem(422, record.problem(asked.refusal()))
}

fn conflict(id: Uuid) -> Reply {
    let reason = Some("another body came under this operation id before".to_owned());
    Reply::Problem(422, Problem { code: ProblemCode::Conflict, reason, operation_id: Some(id) })
}

/// An amount that lost everything below a hundredth.
fn cents(amount: Decimal) -> Option<Decimal> {
    let below = 10_u128.checked_pow(u32::from(amount.scale().saturating_sub(2)))?;
    Decimal::new(amount.coefficient() / below, amount.scale().min(2))
}
