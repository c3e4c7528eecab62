//! The calls of the protocol.
//!
//! Each takes the time that its signature carries: when the caller last knew that it may act. A provider
//! turns away what is older than 300 seconds, so that a request of a process that slept does nothing.

use async_trait::async_trait;
use bytes::Bytes;
use settle_domain::time::Timestamp;
use uuid::Uuid;

use crate::seen::Seen;
use crate::wire::{Capabilities, Operation, OperationKind, OperationPage, Quote, QuoteRequest};

/// A provider: over the network, or in a simulation. No call repeats itself; each ends within its time limit.
#[async_trait]
pub trait Provider: Send + Sync {
    /// `POST /quotes`. Nothing is executed, whatever comes of it.
    async fn quote(&self, request: &QuoteRequest, stamped_at: Timestamp) -> Seen<Quote>;

    /// `POST /conversions`, `/payouts` or `/refunds`, with the very bytes that were committed before.
    async fn send(
        &self,
        kind: OperationKind,
        operation_id: Uuid,
        body: Bytes,
        stamped_at: Timestamp,
    ) -> Seen<Operation>;

    /// `GET /operations/{operation_id}`.
    async fn look_up(&self, operation_id: Uuid, stamped_at: Timestamp) -> Seen<Operation>;

    /// `POST /operations/{operation_id}/void`.
    async fn void(&self, operation_id: Uuid, stamped_at: Timestamp) -> Seen<Operation>;

    /// `GET /operations`: a page of what has changed since then, from the start or after another page.
    async fn changes(
        &self,
        updated_since: Timestamp,
        after: Option<&str>,
        stamped_at: Timestamp,
    ) -> Seen<OperationPage>;

    /// `GET /capabilities`.
    async fn capabilities(&self, stamped_at: Timestamp) -> Seen<Capabilities>;
}
