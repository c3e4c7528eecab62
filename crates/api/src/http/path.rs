//! The ids in a request's path.

use std::convert::Infallible;
use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;

/// The parameters of the path. One that is no id names nothing that exists, so reading them refuses nothing.
pub struct PathIds(Option<RawPathParams>);

impl<S: Send + Sync> FromRequestParts<S> for PathIds {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<PathIds, Infallible> {
        Ok(PathIds(RawPathParams::from_request_parts(parts, state).await.ok()))
    }
}

impl PathIds {
    /// The id at this place.
    #[must_use]
    pub fn id<Id: FromStr>(&self, place: &str) -> Option<Id> {
        let (_, text) = self.0.as_ref()?.iter().find(|(name, _)| *name == place)?;
        text.parse().ok()
    }
}
