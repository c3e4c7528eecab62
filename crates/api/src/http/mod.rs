//! What requests pass through: envelope, credential, rate limit, body, query. Nothing here knows the state of
//! a listener, which is made from these parts.

mod bearer;
mod body;
mod envelope;
mod lookups;
mod query;
mod rate_limit;
mod success;

pub use bearer::{BearerFault, bearer};
pub use body::{read_body, read_json};
pub use envelope::{EnvelopeState, envelope};
pub use lookups::Lookups;
pub use query::{Paging, PagingParameters, Parameters};
pub use rate_limit::RateLimiter;
pub use success::{json, no_store, serialized};
