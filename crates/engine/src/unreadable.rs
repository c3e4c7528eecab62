//! Payments that this version cannot read: a row that only another version understands, or a damaged one.
//!
//! Such a payment is told of once, with its id, and rests: claims leave it out, so that its merchant's others
//! and everybody else's go on. Now and then it is read again, because somebody may have mended it.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_store::StoreError;
use tokio::time::Instant;

/// How long a payment that cannot be read is left alone.
pub(crate) const REST: Duration = Duration::from_mins(10);
/// Payments that rest at most; of more nothing is told, and each look finds them again.
const RESTING_MAX: usize = 4_096;

/// The payments that cannot be read, and until when each rests.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(HashMap<PaymentId, (MerchantId, Instant)>);

impl Unreadable {
    /// A payment cannot be read. Says whether it rests from now on.
    pub(crate) fn rest(&mut self, merchant: MerchantId, payment: PaymentId, error: &StoreError) -> bool {
        let until = Instant::now() + REST;
        if let Some(known) = self.0.get_mut(&payment) {
            *known = (merchant, until);
            return true;
        }
        if self.0.len() >= RESTING_MAX {
            return false;
        }
        let cause = error.source().map(ToString::to_string);
        tracing::error!(%merchant, %payment, %error, cause, "a payment cannot be read: it rests");
        self.0.insert(payment, (merchant, until));
        self.show();
        true
    }

    /// A payment was read.
    pub(crate) fn was_read(&mut self, payment: PaymentId) {
        if self.0.remove(&payment).is_some() {
            tracing::info!(%payment, "a payment that could not be read was read");
            self.show();
        }
    }

    /// Merchants that are no longer served here are others' to tell of.
    pub(crate) fn keep(&mut self, serves: impl Fn(MerchantId) -> bool) {
        let before = self.0.len();
        self.0.retain(|_, (merchant, _)| serves(*merchant));
        if self.0.len() != before {
            self.show();
        }
    }

    /// What rests now, with its merchant.
    pub(crate) fn resting(&self) -> impl Iterator<Item = (PaymentId, MerchantId)> {
        let now = Instant::now();
        let resting = self.0.iter().filter(move |(_, (_, until))| *until > now);
        resting.map(|(payment, (merchant, _))| (*payment, *merchant))
    }

    /// Whether a merchant has a payment that cannot be read.
    pub(crate) fn is_of(&self, merchant: MerchantId) -> bool {
        self.0.values().any(|(owner, _)| *owner == merchant)
    }

    fn show(&self) {
        let number = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        metrics::gauge!("settle_payments_unreadable").set(f64::from(number));
    }
}
