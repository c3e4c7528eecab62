//! What operators are told at once, whatever else is done about it.

use crate::named::named;

named! {
    /// What an alert is about.
    pub enum AlertKind, "a kind of alert" {
        /// Deliveries whose last attempts failed.
        DeliveriesDead = "deliveries.dead",
        /// Payments that a person must look at.
        PaymentNeedsReview = "payment_needs_review",
        /// Payments that were blocked, or on their way, for longer than their corridor allows.
        PaymentBlocked = "payment_blocked",
        /// Money that was paid, or paid back, and has come back.
        PaymentReturned = "payment_returned",
        /// Payments that are likely another once more: the same amount for the same destination.
        PaymentLikelyDouble = "payment_likely_double",
        /// A provider whose wallet cannot pay for its transactions.
        ProviderOutOfGas = "provider_out_of_gas",
        /// A provider that does not answer: nothing is sent to it.
        ProviderCircuitOpen = "provider_circuit_open",
        /// A provider whose memory is another than before: what it did before, it may not know.
        ProviderMemoryChanged = "provider_memory_changed",
        /// Books that do not agree.
        BooksDisagree = "books_disagree",
        /// Something that a provider and we do not agree on.
        ReconciliationFinding = "reconciliation_finding",
        /// A provider with which nothing could be compared for hours.
        ReconciliationOverdue = "reconciliation_overdue",
    }
}
