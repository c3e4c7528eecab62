//! HTTP: the merchant API, the operator's listener, the error envelope and its languages, OpenAPI, the docs
//! page.
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
//! An operation for operators goes into the folder `operator`. Its first argument is `Operator`, it returns
//! [`ApiError`](error::ApiError), and it is described in the README instead of `openapi.json`.

mod authentication;
mod deliveries;
pub mod docs;
mod endpoints;
pub mod error;
pub mod http;
mod language;
mod limits;
mod openapi;
mod operations;
mod operator;
mod refusals;
pub mod router;
pub mod server;
mod settlements;
mod state;

pub use language::{Language, Messages, MessagesFault};
pub use limits::Limits;
pub use openapi::{document, text as openapi_text};
pub use operator::OperatorState;
pub use state::{ApiState, Parts};
