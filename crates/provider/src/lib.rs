//! The provider protocol: what Settle says to a provider and hears from it, and the client that does so.
//!
//! A provider quotes, converts, pays out and refunds. It is a service of its own, reached by HTTP and JSON,
//! so that none of its code runs in our process. `docs/providers.md` is the contract for whoever writes one.
//!
//! | module | what it has |
//! |---|---|
//! | [`wire`] | the bodies of requests and answers, and how they are read |
//! | [`signing`] | how both sides sign, and what a signature covers |
//! | [`seen`] | what a call has seen: never what follows from it |
//! | [`provider`] | the calls, as a trait that a simulation can implement |
//! | [`client`] | the calls over the network |
//! | [`check`] | whether a provider keeps to the protocol |
//!
//! What an answer means for a payment is not decided here. The client says what it saw ([`seen::Seen`]), in
//! the words of the protocol; the classification is a pure function of the domain.

pub mod check;
pub mod client;
pub mod provider;
pub mod seen;
pub mod signing;
pub mod wire;
