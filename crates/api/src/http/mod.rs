//! What requests pass through: envelope, credential, rate limit, body, query. Nothing here knows the state of
//! a listener, which is made from these parts.

mod answers;
mod asset;
mod bearer;
mod body;
mod envelope;
mod excerpt;
#[cfg(test)]
mod fuzz;
mod guesses;
mod lookups;
mod path;
mod query;
mod rate_limit;
mod shares;
mod source;
mod success;
mod tally;
mod traffic;

pub use answers::Answers;
pub use asset::Asset;
pub use bearer::{BearerFault, bearer};
pub use body::{parse_json, read_body, read_json};
pub use envelope::{EnvelopeState, envelope};
pub use excerpt::Excerpt;
pub use lookups::Lookups;
pub use path::PathIds;
pub use query::{Paging, PagingParameters, Parameters};
pub use rate_limit::RateLimiter;
pub use shares::{Share, Shares};
pub use source::{Origin, Proxies, Source};
pub use success::{json, no_store, serialized};
pub use tally::Tally;
