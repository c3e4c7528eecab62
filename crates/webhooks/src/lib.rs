//! Webhooks: judging endpoints, signing notifications, sending them. The dispatcher and the alerts come here
//! too.
//!
//! | module | what it does |
//! |---|---|
//! | [`guard`] | one verdict a URL: whether it may be called, and at which addresses |
//! | [`notification`] | the signed request of one attempt |
//! | [`sender`] | one attempt over real HTTP, through the guard, within its time |
//!
//! The guard is the connector, not a check before it: whatever opens a connection to a merchant's endpoint
//! asks it, and connects to an address it has just checked.

pub mod guard;
pub mod notification;
pub mod sender;
