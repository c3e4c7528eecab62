//! HTTP: the merchant API, the operator's listener, the error envelope and its languages, OpenAPI, the docs
//! page.
//!
//! # The way of a request
//!
//! `server.rs` accepts the connection, `http/envelope.rs` gives the request an id, a time limit and a span,
//! and `router.rs` finds the handler. `Caller`, the handler's first argument, judges the key with one indexed
//! read, which concurrent requests with the same key share, and takes from the merchant's rate bucket. The
//! handler reads from the store; or it begins a transaction, locks the merchant, lets a function of the
//! domain decide, writes and commits. On the way out the envelope renders an error in the caller's language,
//! logs one line and counts.
//!
//! The operator's listener has its own address and fewer connections, and the same envelope; `Operator`
//! judges the token. `POST /operator/v1/settlements` parses the body element by element, names the problems,
//! and gives the settlements to the recorder of `settle-outbox`. The recorder puts all callers that came
//! meanwhile into one transaction, wakes the dispatcher and answers each. A client that was cut off sends the
//! same settlements again: they are recorded and notified once.
//!
//! # How to add an operation
//!
//! One operation is one file, in the folder of its noun, in one order: request, response, documentation,
//! handler. Handlers translate; rules live in the domain. `operations.rs` shows the whole API on one screen.
//!
//! 1. Write the file. Its first argument is `Caller`: it judges the key before the handler reads the rest.
//! 2. Say with `operation_errors!` what it can be refused for. The type is both what the handler returns and
//!    what OpenAPI lists, so that neither can say more than the other.
//! 3. Add it to `operations.rs`, and write `openapi.json` anew with `settle openapi > openapi.json`.
//! 4. Add its tests. The test client checks every answer against `openapi.json`, and the authorization test
//!    picks up every route that is listed there.
//!
//! An operation for operators goes into the folder `operator`, and into `operator/operations.rs`. Its first
//! argument is `Operator`, it returns [`ApiError`](error::ApiError), and it lists in the document what it can
//! be refused for; `settle openapi --operator > operator-openapi.json` writes the document anew.

mod authentication;
mod deliveries;
pub mod docs;
mod endpoints;
pub mod error;
mod health;
pub mod http;
mod language;
mod limits;
pub mod metrics;
mod openapi;
mod operations;
mod operator;
mod refusals;
mod router;
pub mod server;
mod settlements;
mod state;
mod under_way;

pub use health::{Health, Standings};
pub use language::{Language, Messages, MessagesFault, Wording};
pub use limits::{Guessing, Limits};
pub use openapi::{document, text as openapi_text};
pub use operator::{OperatorParts, OperatorState, text as operator_openapi_text};
pub use router::Routes;
pub use state::{ApiState, Parts};
