//! The nouns and rules of settlement: money, quotes, settlements, deliveries, signatures, error codes, ids.
//!
//! There is no I/O here, no async and no clock. Time, randomness and ids are parameters, so that every rule
//! can be tested as a plain function, and two hours of retries run in a millisecond.
//!
//! | module | what it decides |
//! |---|---|
//! | [`money`], [`quote`] | exact decimals, and what a merchant is paid out of an incoming amount |
//! | [`settlement`] | the record a merchant sees, its field order, and the notification made from it |
//! | [`pricing`] | what the house earns: types that no merchant-facing type can name |
//! | [`delivery`] | the states of a notification delivery and its retry schedule |
//! | [`event`] | what a notification tells of |
//! | [`endpoint`] | what a change of a merchant's webhook configuration does |
//! | [`webhook_secret`] | the secret of an endpoint, in plain text and sealed |
//! | [`signature`] | how a notification is signed, and how a receiver checks it |
//! | [`credential`] | API keys and operator tokens: their form and how they are stored |
//! | [`vault`] | the master key ring: sealing webhook secrets, hashing credentials |
//! | [`error_code`] | every code a client can match on, with its HTTP status |
//! | [`page`] | the bounds of a list request |
//! | [`ids`], [`time`] | typed ids, and timestamps to the microsecond |
//! | [`seams`] | the two seams to the outside: clock and entropy |

pub mod credential;
pub mod delivery;
pub mod endpoint;
pub mod error_code;
pub mod event;
pub mod ids;
pub mod money;
pub mod page;
pub mod pricing;
pub mod quote;
pub mod seams;
pub mod settlement;
pub mod signature;
pub mod time;
pub mod vault;
pub mod webhook_secret;
