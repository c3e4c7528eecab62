//! The settlement engine: what came in is converted and paid out, once, exactly, whatever providers do.
//!
//! | module | what it does |
//! |---|---|
//! | [`case`] | one payment with its operations, as the engine holds it, and its form in the store |
//! | [`advance`] | what follows from what happened to a case: pure, without I/O |
//! | [`words`] | what a call to a provider has seen, in the domain's words |
//! | [`acts`] | what operators do with a payment |
//! | [`writer`] | records new payments and advances, whatever is ready in one transaction |
//! | [`providers`] | the providers: their places, their circuits, what they can do |
//! | [`life`] | takes one case as far as it goes: call, record, call |
//! | [`runner`] | claims what is due in the shards that this process holds |
//! | [`books`] | checks that the books agree |
//! | [`metrics`] | what the engine measures |
//! | [`obstacles`] | what keeps a payment from going on until a person mends it |
//! | [`pauses`] | keeps the pauses that operators make known to the providers of this process |
//! | [`watch`] | tells operators what takes too long |
//! | [`reconcile`] | compares what providers did with what we hold, once a day |
//! | [`wake`] | tells the runner of this process that something has come |
//!
//! # Never paid twice
//!
//! **Intent before call.** An operation is committed, with its whole request, before its first byte. The
//! transaction that records a result prepares the next operation, so a payment on its usual way takes four
//! transactions: received; quoted and converting; converted and paying out; completed with its settlement and
//! its notification.
//!
//! **Who sent it, knows.** A commit marks an operation as being sent ([`case::Errand::Sending`]). Only the
//! task that made the mark sends. Whoever finds it, because a process died or lost its shard, treats the send
//! as one whose answer was lost, and looks it up.
//!
//! **What was learnt is kept.** The shard's token and the payment's version fence a step. If they do not hold
//! any more, what was learnt of the operation is recorded all the same, and the payment becomes due: whoever
//! serves it now goes on from there. Of what moved without it the payment hears at once, and stops: nobody
//! would ask about that again.

pub mod acts;
pub mod advance;
pub mod books;
pub mod case;
mod hands;
pub mod life;
pub mod metrics;
pub mod obstacles;
pub mod pauses;
pub mod providers;
pub mod reconcile;
pub mod runner;
pub mod wake;
pub mod watch;
pub mod words;
pub mod writer;
