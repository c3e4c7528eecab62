//! Webhooks: judging endpoints, signing and sending notifications, alerting operators. The crate
//! `settle-outbox` enqueues the notifications.
//!
//! | module | what it does |
//! |---|---|
//! | [`guard`] | judges a URL: whether the service may call it, and at which addresses |
//! | [`dispatcher`] | claims deliveries that are due, sends them, records their outcomes |
//! | [`notification`] | makes the signed request of one attempt |
//! | [`sender`] | makes one attempt over real HTTP, through the guard, within a time limit |
//! | [`alerts`] | tells operators of deliveries that died, at least once |
//! | [`metrics`] | says what its metrics mean |
//! | [`clearer`] | ends what was waiting for an endpoint that its merchant cleared |
//!
//! The guard is part of the connector, not a check before it: every new connection to a merchant's endpoint
//! goes to an address that the guard has just checked.

pub mod alerts;
pub mod clearer;
pub mod dispatcher;
pub mod guard;
pub mod metrics;
pub mod notification;
pub mod sender;
