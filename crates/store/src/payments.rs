//! Payments: pay-ins on their way through the engine, their queue and their timeline.
//!
//! The store keeps in columns what it searches and fences by, and the rest as JSON that only the engine
//! reads: what came in (`request`, which never changes) and what happened so far (`progress`).
//!
//! The table is the engine's queue, as the table of deliveries is the dispatcher's: `due_at` says when the
//! engine has to do something. While the engine has a payment in hand `due_at` stays in the past, so that
//! whoever takes over after a crash finds it at once, and no index changes with every step. A claim is a
//! read; recording a step is fenced by the shard's token and by the version that the engine saw.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{Flag, Likeness, PayIn, StateName};
use settle_domain::provider::ProviderName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;

use crate::{DueMerchant, DueTime, MerchantLock, Shard, StoreError, StoreResult};

/// The most payments in one call that creates or changes them.
pub const PAYMENTS_AT_ONCE_MAX: usize = 1_000;

/// Payments that a claim looks at, of a merchant of whom some are passed over: a bound on what the others
/// wait for.
pub const LOOKED_AT_MAX: u32 = 4_096;

/// A payment as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentRow {
    /// Whose it is.
    pub merchant_id: MerchantId,
    /// Its id, which becomes the settlement's.
    pub payment_id: PaymentId,
    /// The account that received the pay-in.
    pub payin_source: String,
    /// The pay-in's reference there.
    pub payin_reference: String,
    /// What changes with its steps.
    pub standing: PaymentStanding,
    /// How often it has changed; 1 when it is new.
    pub version: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// What came in, as JSON. It never changes.
    pub request: String,
}

impl PaymentRow {
    /// The reference under which a settlement recorded by hand may be of the same pay-in: such a record names
    /// no receiving account.
    #[must_use]
    pub fn reference_by_hand(&self) -> Option<&str> {
        (self.payin_source == PayIn::DEFAULT_SOURCE).then_some(self.payin_reference.as_str())
    }
}

/// A payment that comes in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPayment {
    /// Its row.
    pub row: PaymentRow,
    /// What it has in common with another that is likely the same once more.
    pub likeness: Likeness,
}

/// Where a payment stands: what a step writes anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentStanding {
    /// Its state.
    pub state: StateName,
    /// Why it is where it is.
    pub reason: Option<Reason>,
    /// Why it cannot go on for the moment.
    pub blocked: Option<Blocked>,
    /// Which provider serves it, once that is known.
    pub provider: Option<ProviderName>,
    /// When it came to its state.
    pub changed_at: Timestamp,
    /// When the engine has to do something about it.
    pub due_at: Option<Timestamp>,
    /// What the engine remembers, as JSON.
    pub progress: String,
}

impl PaymentStanding {
    /// Whether somebody may still have to look at it: the engine, or an operator.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.state, StateName::Completed | StateName::Refunded) || self.due_at.is_some()
    }
}

/// A line of a payment's timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    /// Whose payment.
    pub merchant_id: MerchantId,
    /// Which payment.
    pub payment_id: PaymentId,
    /// Its place in the timeline, from 1 on.
    pub number: u32,
    /// When it was recorded.
    pub at: Timestamp,
    /// What happened, as JSON.
    pub step: String,
}

/// What became of a payment that was to be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentCreated {
    /// It is new.
    New,
    /// It is new, and like this one of the merchant, which came less than [`Likeness::WITHIN`] before.
    NewAlike(PaymentId),
    /// The same was there already.
    Same,
    /// Its pay-in is there already with other content or for another merchant, or a settlement with its id or
    /// its pay-in was recorded by hand, or staged by an import. The caller must then roll back.
    Conflict,
}

impl PaymentCreated {
    /// Whether it is new.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, PaymentCreated::New | PaymentCreated::NewAlike(_))
    }
}

/// A change of a payment, made by somebody who saw a version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentChange {
    /// Whose it is.
    pub merchant_id: MerchantId,
    /// Its id.
    pub payment_id: PaymentId,
    /// The version that was seen. The change makes the next one.
    pub seen: u64,
    /// Where it stands from now on.
    pub standing: PaymentStanding,
    /// What stands out from now on: operators search by it, the engine never reads it.
    pub flag: Option<Flag>,
}

/// Which payments an operator looks for. Empty means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PaymentFilter {
    /// Of this merchant.
    pub merchant_id: Option<MerchantId>,
    /// In this state. Without one, and without a flag, whatever is not completed or refunded.
    pub state: Option<StateName>,
    /// With this flag, whatever its state.
    pub flag: Option<Flag>,
    /// Blocked for this reason.
    pub blocked: Option<Blocked>,
    /// Failed, or to be reviewed, for this reason.
    pub reason: Option<Reason>,
    /// Served by this provider.
    pub provider: Option<ProviderName>,
    /// With this pay-in reference.
    pub reference: Option<String>,
    /// In its state since this time or before.
    pub changed_by: Option<Timestamp>,
}

impl PaymentFilter {
    /// How a search finds them.
    #[must_use]
    pub fn searched_by(&self) -> SearchedBy {
        match self.state {
            _ if self.flag.is_some() => SearchedBy::Flag,
            _ if self.reference.is_some() => SearchedBy::Reference,
            Some(StateName::Completed) => SearchedBy::Completion,
            Some(StateName::Refunded) => SearchedBy::Refund,
            _ => SearchedBy::Openness,
        }
    }
}

/// By which mark of theirs a search finds payments: the rarest for which there is an index, so that it
/// does not walk over all that were ever made. The other marks are compared one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchedBy {
    /// By their flag, which few have.
    Flag,
    /// By their pay-in reference, which one payment of a receiving account has.
    Reference,
    /// Among those that are open. Whatever is neither completed nor refunded is.
    Openness,
    /// Among those that were refunded.
    Refund,
    /// Among all of the merchants asked for, nearly all of which are completed.
    Completion,
}

/// How many payments are in a state, and since when the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentCount {
    /// The state.
    pub state: StateName,
    /// How many.
    pub number: u64,
    /// When the first of them came to it.
    pub oldest_at: Option<Timestamp>,
}

/// A payment that has been in its state for longer than its corridor allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatePayment {
    /// Whose it is.
    pub merchant_id: MerchantId,
    /// Its id.
    pub payment_id: PaymentId,
    /// Its state.
    pub state: StateName,
    /// Why it cannot go on for the moment.
    pub blocked: Option<Blocked>,
    /// Which provider serves it, once that is known.
    pub provider: Option<ProviderName>,
    /// When it came to its state.
    pub changed_at: Timestamp,
    /// Since when it is late.
    pub late_at: Timestamp,
}

/// How many payments of a merchant the engine wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaymentAsk {
    /// The merchant's id.
    pub merchant_id: MerchantId,
    /// The most payments. Powers of two keep the asks of many merchants in few statements.
    pub number: u32,
    /// Providers whose payments are passed over, among the first [`LOOKED_AT_MAX`] that are due. A payment
    /// that has none yet counts as one of the provider that the newest terms of its corridor name.
    pub without: Vec<ProviderName>,
}

impl PaymentAsk {
    /// As many payments, whatever their provider.
    #[must_use]
    pub const fn new(merchant_id: MerchantId, number: u32) -> PaymentAsk {
        PaymentAsk { merchant_id, number, without: Vec::new() }
    }

    /// The names of the providers that are passed over, a comma before and behind each. No name has one.
    #[must_use]
    pub fn without_listed(&self) -> String {
        let names = self.without.iter().map(ProviderName::as_str);
        names.fold(",".to_owned(), |list, name| list + name + ",")
    }
}

/// What a claim of payments found.
#[derive(Debug, Default)]
pub struct PaymentClaims {
    /// What is due.
    pub found: Vec<PaymentRow>,
    /// What is due and cannot be read by this version, and why not. What else is due is found all the same.
    pub unreadable: Vec<(MerchantId, PaymentId, StoreError)>,
}

impl PaymentClaims {
    /// Adds a row, whether or not it could be read.
    pub fn add(&mut self, merchant: MerchantId, payment: PaymentId, row: StoreResult<PaymentRow>) {
        match row {
            Ok(row) => self.found.push(row),
            Err(error) => self.unreadable.push((merchant, payment, error)),
        }
    }
}

/// Questions about payments.
#[async_trait]
pub trait PaymentReads {
    /// Merchants of the given shards with a payment due, without the `known` ones.
    async fn payment_due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>>;

    /// The payments that are due, each merchant's first due first, without those already `taken`. Where
    /// some are passed over, nothing is found that is due later than anybody waits.
    async fn payment_claim(
        &self,
        asks: &[PaymentAsk],
        taken: &[(MerchantId, PaymentId)],
        due: DueTime,
    ) -> StoreResult<PaymentClaims>;

    /// A merchant's payment.
    async fn payment_find(&self, merchant: MerchantId, payment: PaymentId)
    -> StoreResult<Option<PaymentRow>>;

    /// The timeline of a payment, first step first.
    async fn payment_steps(&self, merchant: MerchantId, payment: PaymentId) -> StoreResult<Vec<StepRow>>;

    /// The internal pricing of payments, those that have some, as JSON, in any order.
    async fn payment_pricing_of_many(
        &self,
        payments: &[(MerchantId, PaymentId)],
    ) -> StoreResult<Vec<(PaymentId, String)>>;
}

/// Searches over the payments of all merchants: for operators, gauges and alerts. A row that this version
/// cannot read is left out, so that it hides no other.
#[async_trait]
pub trait PaymentSearches {
    /// An operator's search: payments in the order of merchants and ids, after the given one, as many as
    /// there are up to the limit.
    async fn payment_search(
        &self,
        filter: &PaymentFilter,
        after: Option<(MerchantId, PaymentId)>,
        limit: u32,
    ) -> StoreResult<Vec<PaymentRow>>;

    /// Payments on their way that have been late since after the given time and payment, until now, in that
    /// order. How long a payment may be in a state is what the newest version of its corridor says, or the
    /// given time without one. No version makes it late before the version is made, or anew if it was late by
    /// an older one.
    async fn payment_late(
        &self,
        now: Timestamp,
        after: (Timestamp, PaymentId),
        allowed: Duration,
        limit: u32,
    ) -> StoreResult<Vec<LatePayment>>;

    /// How many payments are blocked for a reason, by provider.
    async fn payment_blocked(&self, blocked: Blocked) -> StoreResult<Vec<(ProviderName, u64)>>;

    /// How many payments are in each state in which somebody may still have to look at them.
    async fn payment_counts(&self) -> StoreResult<Vec<PaymentCount>>;
}

/// Changes to payments.
#[async_trait]
pub trait PaymentWrites {
    /// Creates payments, at most [`PAYMENTS_AT_ONCE_MAX`]; says in their order what became of each.
    async fn payment_create_many(
        &mut self,
        lock: &MerchantLock,
        payments: &[NewPayment],
    ) -> StoreResult<Vec<PaymentCreated>>;

    /// Changes payments that still have the version that was seen, at most [`PAYMENTS_AT_ONCE_MAX`]. Says in
    /// their order which had: of several who saw the same version of a payment, the first.
    async fn payment_change_many(
        &mut self,
        lock: &MerchantLock,
        changes: &[PaymentChange],
    ) -> StoreResult<Vec<bool>>;

    /// Adds lines to timelines.
    async fn payment_step_many(&mut self, lock: &MerchantLock, steps: &[StepRow]) -> StoreResult<()>;

    /// Sets the internal pricing of payments, as JSON.
    async fn payment_price_many(
        &mut self,
        lock: &MerchantLock,
        pricing: &[(MerchantId, PaymentId, String)],
    ) -> StoreResult<()>;

    /// Computes anew when merchants have a payment due: after a claim found less than it asked for.
    async fn payment_refresh(&mut self, lock: &MerchantLock, merchants: &[MerchantId]) -> StoreResult<()>;
}
