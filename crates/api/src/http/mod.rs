//! What every request passes through: envelope, authentication, rate limit, body, query.

mod authentication;
mod body;
mod envelope;
mod lookups;
mod query;
mod rate_limit;
mod success;

pub use authentication::{BearerFault, Caller, bearer};
pub use body::{read_body, read_json};
pub use envelope::{EnvelopeState, envelope};
pub use lookups::Lookups;
pub use query::{Paging, PagingParameters, Parameters};
pub use rate_limit::RateLimiter;
pub use success::{json, no_store};
