//! What follows from an answer: one pure function from what was seen, and what is remembered of the
//! operation, to what is known now and what is done next.
//!
//! An answer is classified by what could have happened, not by what it says. Only the provider's signed word
//! says that something was not executed; whatever else comes back after a byte has left us is unknown, and
//! what was unknown once is never again refused by the answer to another send.

use super::report::{Answer, Judgement, Refusal};
use super::{Memory, OperationKind, OperationStatus};
use crate::named::named;
use crate::reason::{Blocked, Reason};

#[cfg(test)]
mod tests;

/// What was seen of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seen {
    /// Send: no byte left us (DNS, connect, TLS, our own circuit).
    NotSent,
    /// Send: turned away before anything was done, with the protocol's signed body: 409, 429, 503.
    TurnedAway(Blocked),
    /// Send: 401 or 403.
    Unauthorised {
        /// Whether the provider itself says so. Anything in between can say the same without its knowledge,
        /// also of a request that it had let through.
        signed: bool,
    },
    /// Send: the provider knows the key with another body.
    Conflict,
    /// Send: a signed answer, 2xx or a refusal.
    Answered(Answer),
    /// Send: anything else after a byte has left us. Also: prepared, and no answer came in time.
    Unclear,
    /// Look-up: the provider's signed word.
    Found(Answer),
    /// Look-up: no signed word of this operation from the same instance.
    LookupFailed,
    /// Look-up: the same instance says, signed, that it does not know the operation.
    Absent,
    /// Void: the provider's signed word.
    Voided(Answer),
    /// Void: no signed word of this operation from the same instance.
    VoidFailed,
}

impl Seen {
    /// Whether what the provider calls done is what was asked, if it calls it done.
    #[must_use]
    pub const fn judgement(self) -> Option<Judgement> {
        match self {
            Self::Answered(Answer::Succeeded(judgement))
            | Self::Found(Answer::Succeeded(judgement))
            | Self::Voided(Answer::Succeeded(judgement)) => Some(judgement),
            _ => None,
        }
    }

    /// Why the provider refused, if it did.
    #[must_use]
    pub const fn refusal(self) -> Option<Refusal> {
        match self {
            Self::Answered(Answer::Refused(refusal))
            | Self::Found(Answer::Refused(refusal))
            | Self::Voided(Answer::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

/// Whether the provider still remembers the operation's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    /// It does: the same key again is the same operation.
    Open,
    /// It may have forgotten: the same key again may be another operation.
    Over,
}

/// Whether the payment lets the operation be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sends {
    /// The payment waits for the operation.
    Allowed,
    /// The payment is under review: nothing more is sent for it.
    Stopped,
}

/// What the engine does next with the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Send it again, the same key and the same bytes, after a wait.
    Send,
    /// Ask the provider about it, after a wait.
    LookUp,
    /// Ask the provider never to begin it.
    Void,
    /// Nothing: the outcome is known.
    Nothing,
}

named! {
    /// The class of what was seen, for people and metrics.
    pub enum Class, "a class of answers" {
        /// Certainly not executed.
        NotExecuted = "not_executed",
        /// Refused for ever.
        Refused = "refused",
        /// The provider has it.
        Accepted = "accepted",
        /// Done as asked.
        Done = "done",
        /// Done, and the money came back.
        Returned = "returned",
        /// It may have been executed.
        Unknown = "unknown",
        /// The provider does not know it.
        Absent = "absent",
        /// What was seen changes nothing.
        NothingLearnt = "nothing_learnt",
    }
}

/// What the payment must hear of its operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum News {
    /// It was done as asked.
    Succeeded,
    /// It was not done, and never will be.
    Refused(Refusal),
    /// Nobody can say whether it was done; a person must look.
    Unclear,
    /// It was done, and the money came back.
    Returned,
    /// It counted as not done, the payment went on, and it was done after all.
    LateSucceeded,
    /// It counted as not done, the payment went on, and it was done after all, and the money came back.
    LateReturned,
    /// It counted as not done, the payment went on, and now it may be done after all.
    Revived,
}

/// What operations must hear at once, whatever becomes of the payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Alarm {
    /// The provider does not accept our credentials.
    Credentials,
    /// The provider takes back its word on something that it had called done.
    Contradiction,
}

/// What is known now, and what is done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling {
    /// The class of what was seen.
    pub class: Class,
    /// What the operation remembers from now on.
    pub memory: Memory,
    /// What the engine does next with it.
    pub next: Next,
    /// What the payment hears, if anything.
    pub news: Option<News>,
    /// What the payment shows as its reason while it waits.
    pub reason: Option<Reason>,
    /// What keeps the payment from going on.
    pub blocked: Option<Blocked>,
    /// What operations hear.
    pub alarm: Option<Alarm>,
}

/// Rules on what was seen of an operation.
#[must_use]
pub fn classify(kind: OperationKind, memory: Memory, seen: Seen, window: Window, sends: Sends) -> Ruling {
    let case = Case { kind, memory, window, sends };
    match memory.status {
        OperationStatus::Prepared | OperationStatus::Accepted | OperationStatus::Unknown => case.open(seen),
        OperationStatus::Refused | OperationStatus::GivenUp => case.closed(seen),
        OperationStatus::Succeeded => case.succeeded(seen),
        OperationStatus::Returned => case.nothing_learnt(),
    }
}

/// An operation before the ruling.
#[derive(Clone, Copy)]
struct Case {
    kind: OperationKind,
    memory: Memory,
    window: Window,
    sends: Sends,
}

impl Case {
    /// The payment waits for the outcome.
    fn open(self, seen: Seen) -> Ruling {
        match seen {
            Seen::NotSent => self.not_executed(Blocked::ProviderUnavailable),
            Seen::TurnedAway(blocked) => self.not_executed(blocked),
            Seen::Unauthorised { signed: true } => {
                Ruling { alarm: Some(Alarm::Credentials), ..self.not_executed(Blocked::ProviderCallFailed) }
            }
            Seen::Unauthorised { signed: false } => Ruling {
                alarm: Some(Alarm::Credentials),
                blocked: Some(Blocked::ProviderCallFailed),
                ..self.unknown()
            },
            Seen::Conflict | Seen::VoidFailed => self.unclear(),
            Seen::Unclear => self.unknown(),
            Seen::Answered(answer) => self.answered(answer),
            Seen::Found(Answer::Refused(_)) if self.may_be_forgotten() => self.unclear(),
            Seen::Found(answer) => self.found(answer),
            Seen::LookupFailed => self.lookup_failed(),
            Seen::Absent => self.absent(),
            Seen::Voided(answer) => self.voided(answer),
        }
    }

    /// A signed answer to a send.
    fn answered(self, answer: Answer) -> Ruling {
        let may_have_moved = self.memory.was_unknown || self.memory.was_accepted;
        match answer {
            // An earlier send may have taken the money that this one misses: only a look-up can tell.
            Answer::Refused(_) if may_have_moved => self.unknown(),
            // Look first: the payment goes under review when the look-up says the same.
            Answer::Succeeded(Judgement::Otherwise) => self.unknown(),
            Answer::Pending
            | Answer::Succeeded(Judgement::AsAsked)
            | Answer::Refused(_)
            | Answer::Returned => self.found(answer),
        }
    }

    /// The provider's own word counts.
    fn found(self, answer: Answer) -> Ruling {
        match answer {
            Answer::Pending => self.accepted(),
            Answer::Succeeded(Judgement::AsAsked) => {
                let news = if self.memory.is_late { News::LateSucceeded } else { News::Succeeded };
                self.ended(OperationStatus::Succeeded, Class::Done, Some(news))
            }
            Answer::Succeeded(Judgement::Otherwise) => self.done_otherwise(),
            Answer::Refused(refusal) => {
                let news = (!self.memory.is_late).then_some(News::Refused(refusal));
                self.ended(OperationStatus::Refused, Class::Refused, news)
            }
            Answer::Returned => self.returned(),
        }
    }

    /// Whether a refusal may be nothing but our own void, remembered by a provider that has forgotten all
    /// else.
    fn may_be_forgotten(self) -> bool {
        self.memory.was_accepted && self.memory.was_voided
    }

    /// A void ends what was not begun. What the provider once had and now calls not begun, it has forgotten.
    fn voided(self, answer: Answer) -> Ruling {
        match answer {
            Answer::Refused(_) if self.memory.was_accepted => self.unclear(),
            Answer::Pending => Ruling { news: self.unless_late(News::Unclear), ..self.accepted() },
            Answer::Succeeded(_) | Answer::Refused(_) | Answer::Returned => self.found(answer),
        }
    }

    /// The provider does not know it: it was not begun yet, as far as the provider knows. That is no proof.
    fn absent(self) -> Ruling {
        if self.memory.was_accepted {
            return self.unclear();
        }
        let next = match (self.window, self.sends) {
            _ if self.memory.is_late => Next::LookUp,
            (Window::Over, _) => Next::Void,
            (Window::Open, Sends::Allowed) => Next::Send,
            (Window::Open, Sends::Stopped) => Next::LookUp,
        };
        Ruling { class: Class::Absent, next, ..self.nothing_learnt() }
    }

    /// Nothing learnt. After the window nothing can be sent any more, so a person must be able to act.
    fn lookup_failed(self) -> Ruling {
        let may_have_moved = self.memory.was_unknown || self.memory.was_accepted;
        if may_have_moved && self.window == Window::Over { self.unclear() } else { self.nothing_learnt() }
    }

    /// The payment went on without it. Whatever says that it moved after all is late, and never thrown away.
    fn closed(self, seen: Seen) -> Ruling {
        let late = Case { memory: Memory { is_late: true, ..self.memory }, ..self };
        match seen {
            Seen::Answered(answer) | Seen::Found(answer) | Seen::Voided(answer) => match answer {
                Answer::Pending => Ruling { news: Some(News::Revived), ..late.accepted() },
                Answer::Succeeded(Judgement::AsAsked) => late.found(answer),
                Answer::Succeeded(Judgement::Otherwise) => {
                    Ruling { news: Some(News::Revived), ..late.unknown() }
                }
                Answer::Returned => Ruling { news: Some(News::Revived), ..late.returned() },
                // The provider's word replaces a person's; it says the same. But no answer to a send refuses
                // what was unknown.
                Answer::Refused(_) if matches!(seen, Seen::Answered(_)) || self.may_be_forgotten() => {
                    self.nothing_learnt()
                }
                Answer::Refused(_) => Ruling { news: None, ..self.found(answer) },
            },
            Seen::NotSent
            | Seen::TurnedAway(_)
            | Seen::Unauthorised { .. }
            | Seen::Conflict
            | Seen::Unclear
            | Seen::LookupFailed
            | Seen::Absent
            | Seen::VoidFailed => self.nothing_learnt(),
        }
    }

    /// Success beats every other status. Only its money can still come back.
    fn succeeded(self, seen: Seen) -> Ruling {
        match seen {
            Seen::Answered(answer) | Seen::Found(answer) | Seen::Voided(answer) => match answer {
                Answer::Returned if self.kind != OperationKind::Conversion => self.returned(),
                Answer::Returned | Answer::Refused(_) | Answer::Succeeded(Judgement::Otherwise) => {
                    Ruling { alarm: Some(Alarm::Contradiction), ..self.nothing_learnt() }
                }
                Answer::Pending | Answer::Succeeded(Judgement::AsAsked) => self.nothing_learnt(),
            },
            Seen::NotSent
            | Seen::TurnedAway(_)
            | Seen::Unauthorised { .. }
            | Seen::Conflict
            | Seen::Unclear
            | Seen::LookupFailed
            | Seen::Absent
            | Seen::VoidFailed => self.nothing_learnt(),
        }
    }
}

/// The classes.
impl Case {
    /// This send was not executed. An earlier one may have been: then nothing is known of the operation.
    fn not_executed(self, blocked: Blocked) -> Ruling {
        let may_have_moved = self.memory.was_unknown || self.memory.was_accepted;
        let may_send = !may_have_moved && !self.memory.is_late && self.sends == Sends::Allowed;
        let next = if may_send { Next::Send } else { Next::LookUp };
        Ruling { class: Class::NotExecuted, next, blocked: Some(blocked), ..self.nothing_learnt() }
    }

    fn accepted(self) -> Ruling {
        let memory = Memory { status: OperationStatus::Accepted, was_accepted: true, ..self.memory };
        Ruling { class: Class::Accepted, ..Case { memory, ..self }.nothing_learnt() }
    }

    fn unknown(self) -> Ruling {
        let memory = Memory { status: OperationStatus::Unknown, was_unknown: true, ..self.memory };
        Ruling { class: Class::Unknown, ..Case { memory, ..self }.nothing_learnt() }
    }

    /// Unknown, and more look-ups are not expected to tell: a person must look.
    fn unclear(self) -> Ruling {
        Ruling { news: self.unless_late(News::Unclear), ..self.unknown() }
    }

    /// Done, and not as asked. If it was late and only under way, that is news for people who went on.
    fn done_otherwise(self) -> Ruling {
        let is_news = self.memory.is_late && self.memory.status == OperationStatus::Accepted;
        let unclear = self.unclear();
        Ruling { news: if is_news { Some(News::Revived) } else { unclear.news }, ..unclear }
    }

    /// Money that went and came back. A conversion that is called returned is nothing that we understand.
    fn returned(self) -> Ruling {
        let was_late_success = self.memory.is_late && self.memory.status == OperationStatus::Succeeded;
        let news = match (self.memory.is_late, was_late_success) {
            (false, _) => Some(News::Returned),
            (true, true) => Some(News::LateReturned),
            (true, false) => None,
        };
        match self.kind {
            OperationKind::Conversion => self.done_otherwise(),
            OperationKind::Payout | OperationKind::Refund => {
                self.ended(OperationStatus::Returned, Class::Returned, news)
            }
        }
    }

    fn ended(self, status: OperationStatus, class: Class, news: Option<News>) -> Ruling {
        let memory = Memory { status, ..self.memory };
        Ruling { class, news, ..Case { memory, ..self }.nothing_learnt() }
    }

    /// Everything stays as it is, and the engine goes on asking until the outcome is known.
    fn nothing_learnt(self) -> Ruling {
        let (next, reason) = match self.memory.status {
            OperationStatus::Prepared | OperationStatus::GivenUp => (Next::LookUp, None),
            OperationStatus::Accepted => (Next::LookUp, Some(Reason::ProviderStillProcessing)),
            OperationStatus::Unknown => (Next::LookUp, Some(self.kind.outcome_unknown())),
            OperationStatus::Succeeded | OperationStatus::Refused | OperationStatus::Returned => {
                (Next::Nothing, None)
            }
        };
        let reason = reason.filter(|_| !self.memory.is_late);
        Ruling {
            class: Class::NothingLearnt,
            memory: self.memory,
            next,
            news: None,
            reason,
            blocked: None,
            alarm: None,
        }
    }

    fn unless_late(self, news: News) -> Option<News> {
        (!self.memory.is_late).then_some(news)
    }
}
