//! Webhooks: judging endpoints, enqueueing notifications, signing and sending them.
//!
//! | module | what it does |
//! |---|---|
//! | [`guard`] | one verdict a URL: whether it may be called, and at which addresses |
//! | [`dispatcher`] | claims what is due, sends it, records what came of it |
//! | [`notification`] | the signed request of one attempt |
//! | [`sender`] | one attempt over real HTTP, through the guard, within its time |
//! | [`alerts`] | operations hear of deliveries that died, at least once |
//!
//! The guard is the connector, not a check before it: whatever opens a connection to a merchant's endpoint
//! asks it, and connects to an address it has just checked.

pub mod alerts;
pub mod dispatcher;
pub mod guard;
pub mod notification;
pub mod sender;
