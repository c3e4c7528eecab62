//! A provider that says to one call what a test wants, and keeps its word otherwise. It knows its keys by
//! their bodies, as the protocol demands, and it may be the last thing that a node sees.

use std::collections::HashMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settle_domain::time::Timestamp;
use settle_outbox::Faults;
use settle_provider::provider::Provider;
use settle_provider::seen::{AnswerFault, LostFault, NotSentFault, Seen};
use settle_provider::signing::SigningFault;
use settle_provider::wire::{
    Absence, Capabilities, Operation, OperationKind, OperationPage, OperationStatus, Problem, ProblemCode,
    Quote, QuoteRequest, WireFault,
};
use settle_store::{StoreError, StoreResult};
use tokio::sync::watch;
use uuid::Uuid;

use crate::desk::{Desk, Lie};

/// What a provider says to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    /// Nothing: no byte reaches it.
    NotSent,
    /// 401, signed.
    TurnedAway,
    /// 403, by anybody.
    TurnedAwayUnsigned,
    /// 409.
    RailInactive,
    /// 409.
    FxAccountsMissing,
    /// 409.
    OutOfGas,
    /// 429.
    Locked,
    /// 503.
    Unavailable,
    /// 422, with the code of what was asked.
    Refused,
    /// 422: the quote has expired.
    QuoteExpired,
    /// 422: it does not know the payer.
    SenderNotRegistered,
    /// 422: no price.
    QuoteRefused,
    /// 422, with a code that nobody knows.
    RefusedOddly,
    /// 422: another body came under this key.
    Conflict,
    /// 404.
    Absent,
    /// 404, of another memory than the one that was asked before.
    AbsentElsewhere,
    /// 2xx: it is at it.
    Pending,
    /// 2xx: done, and it was.
    AsAsked,
    /// 2xx: done, with an amount that was not asked; what it did is what was asked.
    OtherAmount,
    /// 2xx: done, with an amount that was not asked, and so it was.
    Short,
    /// 2xx: refused.
    IsRefused,
    /// 2xx: refused, of another memory than the one that was asked before.
    IsRefusedElsewhere,
    /// 2xx: done, and it has come back.
    Returned,
    /// 2xx, and no word of the protocol.
    Garbage,
    /// 2xx, unsigned.
    Unsigned,
    /// 2xx, about something else.
    AboutAnother,
    /// 500.
    Broken,
    /// Nothing in time.
    Timeout,
    /// Nothing: the connection is closed.
    Closed,
}

impl Says {
    pub(crate) const ALL: [Says; 29] = [
        Says::NotSent,
        Says::TurnedAway,
        Says::TurnedAwayUnsigned,
        Says::RailInactive,
        Says::FxAccountsMissing,
        Says::OutOfGas,
        Says::Locked,
        Says::Unavailable,
        Says::Refused,
        Says::QuoteExpired,
        Says::SenderNotRegistered,
        Says::QuoteRefused,
        Says::RefusedOddly,
        Says::Conflict,
        Says::Absent,
        Says::AbsentElsewhere,
        Says::Pending,
        Says::AsAsked,
        Says::OtherAmount,
        Says::Short,
        Says::IsRefused,
        Says::IsRefusedElsewhere,
        Says::Returned,
        Says::Garbage,
        Says::Unsigned,
        Says::AboutAnother,
        Says::Broken,
        Says::Timeout,
        Says::Closed,
    ];

    /// What it means whatever was asked; `None` if it is an operation or a quote.
    fn seen<T>(self, id: Uuid, refused: ProblemCode) -> Option<Seen<T>> {
        let problem = |code, reason: Option<&str>| Problem {
            code,
            reason: reason.map(str::to_owned),
            operation_id: None,
        };
        let blocked = |status, code| Seen::Blocked { status, problem: problem(code, None) };
        let unusable = |fault| Seen::Unusable { status: 200, fault };
        let absent =
            |instance: &str| Seen::Absent(Absence { operation_id: id, instance: instance.to_owned() });
        Some(match self {
            Says::NotSent => Seen::NotSent(NotSentFault::Dns),
            Says::TurnedAway => {
                let problem = Some(problem(ProblemCode::Unauthenticated, None));
                Seen::TurnedAway { status: 401, problem }
            }
            Says::TurnedAwayUnsigned => Seen::TurnedAway { status: 403, problem: None },
            Says::RailInactive => blocked(409, ProblemCode::RailInactive),
            Says::FxAccountsMissing => blocked(409, ProblemCode::FxAccountsMissing),
            Says::OutOfGas => blocked(409, ProblemCode::PayoutWalletOutOfGas),
            Says::Locked => blocked(429, ProblemCode::Locked),
            Says::Unavailable => blocked(503, ProblemCode::ProviderUnavailable),
            Says::Refused => Seen::Refused(problem(refused, Some("it does not want to"))),
            Says::QuoteExpired => Seen::Refused(problem(refused, Some(Problem::QUOTE_EXPIRED))),
            Says::SenderNotRegistered => Seen::Refused(problem(ProblemCode::SenderNotRegistered, None)),
            Says::QuoteRefused => Seen::Refused(problem(ProblemCode::QuoteRefused, None)),
            Says::RefusedOddly => Seen::Refused(problem(ProblemCode::Other("moon".to_owned()), None)),
            Says::Conflict => Seen::Conflict(problem(ProblemCode::Conflict, None)),
            Says::Absent => absent("one"),
            Says::AbsentElsewhere => absent("two"),
            Says::Garbage => unusable(AnswerFault::Body(WireFault::new("status", "is not a word"))),
            Says::Unsigned => unusable(AnswerFault::Signature(SigningFault::Header("service-signature"))),
            Says::AboutAnother => unusable(AnswerFault::Other),
            Says::Broken => Seen::Unusable { status: 500, fault: AnswerFault::Status(500) },
            Says::Timeout => Seen::NoAnswer(LostFault::Timeout(Duration::from_secs(30))),
            Says::Closed => Seen::NoAnswer(LostFault::Closed),
            Says::Pending
            | Says::AsAsked
            | Says::OtherAmount
            | Says::Short
            | Says::IsRefused
            | Says::IsRefusedElsewhere
            | Says::Returned => return None,
        })
    }
}

/// What is asked of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Quote,
    Send(OperationKind),
    /// About an operation of this kind.
    LookUp(OperationKind),
}

/// What a provider says to the first call of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) to: Call,
    pub(crate) says: Says,
    /// Whether it does what it is asked, if it is asked to do something.
    pub(crate) executes: bool,
}

/// What befalls a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// It dies.
    Dies,
    /// The answer to a commit is lost; elsewhere nothing happens.
    Unanswered,
    /// A commit fails; elsewhere nothing happens.
    Fails,
}

/// What somebody does while a node goes on.
pub(crate) type Meanwhile = Box<dyn Fn() + Send + Sync>;

/// Everything that a node lives through, in turn, and what befalls it at which of it.
pub(crate) struct Fate {
    mishap: Option<(usize, Mishap)>,
    /// What somebody else does when the node comes to something.
    meanwhile: Option<(usize, Meanwhile)>,
    lived: Mutex<Vec<String>>,
    is_dead: watch::Sender<bool>,
}

impl Fate {
    pub(crate) fn new(mishap: Option<(usize, Mishap)>) -> Arc<Fate> {
        Arc::new(Fate {
            mishap,
            meanwhile: None,
            lived: Mutex::default(),
            is_dead: watch::Sender::new(false),
        })
    }

    /// The node dies at this, and somebody does something at another.
    pub(crate) fn dies(at: usize, meanwhile: Option<(usize, Meanwhile)>) -> Arc<Fate> {
        Arc::new(Fate {
            mishap: Some((at, Mishap::Dies)),
            meanwhile,
            lived: Mutex::default(),
            is_dead: watch::Sender::new(false),
        })
    }

    /// What the node has lived through.
    pub(crate) fn lived(&self) -> Vec<String> {
        self.lived.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) async fn death(&self) {
        self.is_dead.subscribe().wait_for(|is_dead| *is_dead).await.expect("it is known");
    }

    /// The node comes to this. Says what befalls it here.
    fn meets(&self, what: String) -> Option<Mishap> {
        let mut lived = self.lived.lock().unwrap_or_else(PoisonError::into_inner);
        let number = lived.len();
        lived.push(what);
        if let Some((at, work)) = &self.meanwhile
            && *at == number
        {
            work();
        }
        let mishap = self.mishap.filter(|(at, _)| *at == number).map(|(_, mishap)| mishap);
        if mishap == Some(Mishap::Dies) {
            self.is_dead.send_replace(true);
        }
        mishap
    }

    async fn calls(&self, what: &str) {
        if self.meets(what.to_owned()) == Some(Mishap::Dies) {
            pending::<()>().await;
        }
    }
}

fn away() -> StoreResult<()> {
    Err(StoreError::Unavailable("the database is away".into()))
}

impl Faults for Fate {
    fn begins(&self) -> StoreResult<()> {
        if *self.is_dead.borrow() { away() } else { Ok(()) }
    }

    fn commits(&self) -> StoreResult<()> {
        match self.meets("before a commit".to_owned()) {
            Some(Mishap::Dies | Mishap::Fails) => away(),
            Some(Mishap::Unanswered) | None => Ok(()),
        }
    }

    fn committed(&self) -> StoreResult<()> {
        match self.meets("after a commit".to_owned()) {
            Some(Mishap::Dies | Mishap::Unanswered) => away(),
            Some(Mishap::Fails) | None => Ok(()),
        }
    }
}

/// The bodies that came under each key: they outlive every teller.
pub(crate) type Bodies = Arc<Mutex<HashMap<Uuid, Bytes>>>;

/// The provider.
pub(crate) struct Teller {
    pub(crate) desk: Arc<Desk>,
    pub(crate) bodies: Bodies,
    pub(crate) fate: Arc<Fate>,
    pub(crate) word: Mutex<Option<Word>>,
}

impl Teller {
    /// What it is to say to this call, once.
    fn word(&self, is_to: impl FnOnce(Call) -> bool) -> Option<Word> {
        let mut word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        word.take_if(|word| is_to(word.to))
    }

    /// What it says of an operation, of which it says something untrue now and then.
    fn told(says: Says, kind: OperationKind, known: Operation) -> Operation {
        let refused = || Operation {
            status: OperationStatus::Refused,
            code: Some(refusal(kind).as_str().to_owned()),
            ..known.clone()
        };
        match says {
            Says::Pending => Operation { status: OperationStatus::Pending, ..known },
            Says::OtherAmount => Operation { amount: Some("0.01".parse().unwrap()), ..known },
            Says::IsRefused => refused(),
            Says::IsRefusedElsewhere => Operation { instance: "two".to_owned(), ..refused() },
            Says::Returned => Operation { status: OperationStatus::Returned, ..known },
            _ => known,
        }
    }

    /// The operation as it would be if it were done.
    fn unbegun(id: Uuid, kind: OperationKind) -> Operation {
        Operation {
            operation_id: id,
            instance: "one".to_owned(),
            kind: Some(kind),
            status: OperationStatus::Pending,
            provider_reference: None,
            asset: None,
            amount: None,
            bought_asset: None,
            bought_amount: None,
            destination_reference: None,
            code: None,
            reason: None,
        }
    }

    async fn begin(&self, kind: OperationKind, id: Uuid, body: &Bytes, at: Timestamp) -> Seen<Operation> {
        let known = self.bodies.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if known.is_some_and(|known| known != *body) {
            return Seen::Conflict(Problem { code: ProblemCode::Conflict, reason: None, operation_id: None });
        }
        let seen = self.desk.send(kind, id, body.clone(), at).await;
        // What it refuses for now, or never got, it need not remember.
        if matches!(self.desk.look_up(id, at).await, Seen::Answered(_)) {
            self.bodies.lock().unwrap_or_else(PoisonError::into_inner).insert(id, body.clone());
        }
        seen
    }

    async fn answer(&self, kind: OperationKind, id: Uuid, body: &Bytes, at: Timestamp) -> Seen<Operation> {
        let Some(Word { says, executes, .. }) = self.word(|to| to == Call::Send(kind)) else {
            return self.begin(kind, id, body, at).await;
        };
        let mut known = Teller::unbegun(id, kind);
        if executes {
            match says {
                // It is done at the second look-up, of which `begin` makes one.
                Says::Pending => self.desk.lies(kind, &[Lie::Pending]),
                Says::Short => self.desk.lies(kind, &[Lie::Short]),
                _ => {}
            }
            let Seen::Answered(done) = self.begin(kind, id, body, at).await else {
                panic!("it does what it is asked")
            };
            known = done;
            if says == Says::Returned {
                self.desk.returns(kind);
            }
        }
        says.seen(id, refusal(kind)).unwrap_or_else(|| Seen::Answered(Teller::told(says, kind, known)))
    }
}

fn refusal(kind: OperationKind) -> ProblemCode {
    match kind {
        OperationKind::Conversion => ProblemCode::ConversionRefused,
        OperationKind::Payout | OperationKind::Refund => ProblemCode::PayoutRefused,
    }
}

#[async_trait]
impl Provider for Teller {
    async fn quote(&self, request: &QuoteRequest, at: Timestamp) -> Seen<Quote> {
        self.fate.calls("before a quote").await;
        let seen = self.desk.quote(request, at).await;
        let seen = match (self.word(|to| to == Call::Quote).map(|word| word.says), seen) {
            (None, seen) => seen,
            (Some(says), Seen::Answered(quote)) => {
                says.seen(Uuid::nil(), ProblemCode::QuoteRefused).unwrap_or(Seen::Answered(match says {
                    Says::OtherAmount => Quote { sell_amount: "0.01".parse().unwrap(), ..quote },
                    Says::Short => Quote { buy_amount: "0.000001".parse().unwrap(), ..quote },
                    _ => quote,
                }))
            }
            (Some(_), seen) => panic!("a quote is free: {seen:?}"),
        };
        self.fate.calls("after a quote").await;
        seen
    }

    async fn send(&self, kind: OperationKind, id: Uuid, body: Bytes, at: Timestamp) -> Seen<Operation> {
        self.fate.calls(&format!("before a {}", kind.as_str())).await;
        let seen = self.answer(kind, id, &body, at).await;
        self.fate.calls(&format!("after a {}", kind.as_str())).await;
        seen
    }

    async fn look_up(&self, id: Uuid, at: Timestamp) -> Seen<Operation> {
        let word = self.word(|to| matches!(to, Call::LookUp(_)));
        let seen = self.desk.look_up(id, at).await;
        let Some(Word { to: Call::LookUp(kind), says, .. }) = word else { return seen };
        let known = match seen {
            Seen::Answered(known) => known,
            _ => Teller::unbegun(id, kind),
        };
        if says == Says::Returned {
            self.desk.returns(kind);
        }
        says.seen(id, refusal(kind)).unwrap_or_else(|| Seen::Answered(Teller::told(says, kind, known)))
    }

    async fn void(&self, id: Uuid, at: Timestamp) -> Seen<Operation> {
        self.desk.void(id, at).await
    }

    async fn changes(&self, since: Timestamp, after: Option<&str>, at: Timestamp) -> Seen<OperationPage> {
        self.desk.changes(since, after, at).await
    }

    async fn capabilities(&self, at: Timestamp) -> Seen<Capabilities> {
        self.fate.calls("before it says what it can do").await;
        let seen = self.desk.capabilities(at).await;
        self.fate.calls("after it says what it can do").await;
        seen
    }
}
