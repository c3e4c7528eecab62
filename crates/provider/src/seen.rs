//! What a call to a provider has seen. What follows from it is not decided here.

use std::io;
use std::time::Duration;

use crate::signing::SigningFault;
use crate::wire::{Absence, Problem, WireFault};

/// What was seen of one call. Each variant stands for a row of the classification, or for a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen<T> {
    /// No byte of the request left us.
    NotSent(NotSentFault),
    /// 401 or 403, signed or not: who does not share our secret cannot sign for us.
    TurnedAway {
        /// 401 or 403.
        status: u16,
        /// The body, if it is signed and the protocol's.
        problem: Option<Problem>,
    },
    /// 409, 429 or 503 with the protocol's signed body.
    Blocked {
        /// 409, 429 or 503.
        status: u16,
        /// The body.
        problem: Problem,
    },
    /// 422 with the protocol's signed body and a refusal.
    Refused(Problem),
    /// 422 with the protocol's signed body, and the code `conflict`: another body came under this key.
    Conflict(Problem),
    /// 404 to a look-up, signed, that names the operation and the instance.
    Absent(Absence),
    /// 2xx with the protocol's signed body, which names the operation that was asked for. Whether its amounts
    /// are those that were asked for is not looked at.
    Answered(T),
    /// A whole answer that says nothing reliable.
    Unusable {
        /// Its status.
        status: u16,
        /// Why it says nothing.
        fault: AnswerFault,
    },
    /// At least one byte may have left us, and no whole answer came.
    NoAnswer(LostFault),
}

/// Why no byte of a request left us.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotSentFault {
    /// The provider's host has no address, or the name servers did not say.
    #[error("DNS: the host has no address")]
    Dns,
    /// No address took a connection.
    #[error("connection: {0}")]
    Connect(io::ErrorKind),
    /// TLS failed, usually because of the certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// The time was up before there was a connection.
    #[error("timeout: no connection within {} s", .0.as_secs_f64())]
    Timeout(Duration),
}

/// Why a whole answer says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerFault {
    /// It is not signed, or not by who shares our secret, or not now.
    #[error("the answer is not signed as it should be: {0}")]
    Signature(SigningFault),
    /// The body is not the protocol's.
    #[error("the answer's body: {0}")]
    Body(WireFault),
    /// It is about another operation, or another quote, than the one that was asked for.
    #[error("the answer is about something else than what was asked")]
    Other,
    /// The protocol has no meaning for this status here; redirects are not followed.
    #[error("the protocol has no answer with status {0} here")]
    Status(u16),
    /// The body is longer than this many bytes.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

/// Why no whole answer came.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LostFault {
    /// The time was up.
    #[error("timeout: no whole answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The connection ended before the answer did, or what came was not HTTP.
    #[error("connection: closed before a whole answer, or the answer was not HTTP")]
    Closed,
}

impl<T> Seen<T> {
    /// What was seen, in a few words for people.
    #[must_use]
    pub fn told(&self) -> String {
        match self {
            Seen::NotSent(fault) => format!("it could not be reached ({fault})"),
            Seen::TurnedAway { status, problem } => match problem {
                Some(problem) => format!("{status} `{}`", problem.code),
                None => format!("{status}, not signed with this secret"),
            },
            Seen::Blocked { status, problem } => format!("{status} `{}`", problem.code),
            Seen::Refused(problem) | Seen::Conflict(problem) => format!("422 `{}`", problem.code),
            Seen::Absent(_) => "404".to_owned(),
            Seen::Answered(_) => "a success".to_owned(),
            Seen::Unusable { status, fault } => format!("{status}: {fault}"),
            Seen::NoAnswer(fault) => format!("no answer ({fault})"),
        }
    }
}
