//! The nouns and rules of settlement: money, quotes, payments, settlements, deliveries, signatures, codes,
//! ids.
//!
//! There is no I/O here, no async and no clock. Callers pass time, randomness and ids as parameters, so tests
//! call every rule as a plain function, and two hours of retries take a millisecond.
//!
//! | module | what it decides |
//! |---|---|
//! | [`money`], [`quote`] | exact decimals, and what a merchant is paid out of an incoming amount |
//! | [`corridor`] | what was agreed for a merchant and a pair of assets, in versions |
//! | [`quoting`] | the amounts frozen at a provider's quote, and how what was bought is divided |
//! | [`payment`] | a pay-in on its way through the engine: its states, and what leads from one to another |
//! | [`operation`], [`provider`] | what is asked of a provider, and what follows from each answer |
//! | [`ledger`] | the books: accounts, and postings that sum to zero |
//! | [`reconciliation`] | what a provider and we may not agree on |
//! | [`reason`], [`actor`] | why a payment is where it is, and who brought it there |
//! | [`settlement`] | the record a merchant sees, its field order, and the notification made from it |
//! | [`pricing`] | our earnings; no type that a merchant sees can name them |
//! | [`delivery`] | the states of a notification delivery and its retry schedule |
//! | [`alert`] | what operators are told at once |
//! | [`event`] | the kinds of events that notifications report |
//! | [`endpoint`] | how a merchant's webhook configuration changes |
//! | [`webhook_secret`] | the secret of an endpoint, in plain text and sealed |
//! | [`signature`] | how a notification is signed, and how a receiver checks it |
//! | [`credential`] | API keys and operator tokens: their form, and the hash that the database stores |
//! | [`vault`] | the master key ring: sealing webhook secrets, hashing credentials |
//! | [`error_code`] | every code a client can match on, with its HTTP status |
//! | [`page`] | the bounds of a list request |
//! | [`ids`], [`time`], [`named`] | typed ids, timestamps to the microsecond, enums with one text a variant |
//! | [`seams`] | the two traits through which time and randomness come in |

pub mod actor;
pub mod alert;
pub mod corridor;
pub mod credential;
pub mod delivery;
pub mod endpoint;
pub mod error_code;
pub mod event;
pub mod ids;
pub mod ledger;
pub mod money;
pub mod named;
pub mod operation;
pub mod page;
pub mod payment;
pub mod pricing;
pub mod provider;
pub mod quote;
pub mod quoting;
pub mod reason;
pub mod reconciliation;
pub mod seams;
pub mod settlement;
pub mod signature;
pub mod time;
pub mod vault;
pub mod webhook_secret;
