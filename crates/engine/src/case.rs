//! One payment with its operations, as the engine holds it in hand, and its form in the store.
//!
//! What the store searches by stands in columns; the rest is JSON in three places. The request never changes.
//! The progress is what the engine remembers. What the operator earns stands with the provider's offer in the
//! table of its own that internal pricing has.

use serde::{Deserialize, Serialize};
use settle_domain::corridor::CorridorVersion;
use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::ledger::Late;
use settle_domain::operation::{GIVEN_UP_WATCHED_FOR, OperationKind, OperationStatus, Promise};
use settle_domain::payment::{
    Act, PayIn, Payment, PaymentEvent, PaymentOrder, PaymentState, Standing, StateParts, transition,
};
use settle_domain::quoting::ProviderQuote;
use settle_domain::time::Timestamp;
use settle_store::{NewPayment, OperationRow, PaymentRow, PaymentStanding, StoreError, StoreResult};

mod errand;
mod stored;
mod tracked;

pub use errand::Errand;
pub use tracked::Tracked;

use stored::{StoredLate, StoredOffer, StoredOrder, StoredPricing, StoredProgress, StoredQuote, StoredSplit};

/// A payment in hand.
#[derive(Debug, Clone)]
pub struct Case {
    /// The payment, at the version that was read.
    pub payment: Payment,
    /// What was asked of providers for it, oldest of each kind first.
    pub operations: Vec<Tracked>,
    /// How many lines its timeline has.
    pub steps: u32,
    /// How often the engine has waited since it last got on.
    pub tries: u32,
    /// The version since which the engine has merely waited and looked: whoever saw the payment since then
    /// saw it as it is.
    pub news_version: u64,
    /// When it came to its state.
    pub changed_at: Timestamp,
    /// When the engine has to do something about it.
    pub due_at: Option<Timestamp>,
    /// The provider's quote that its amounts are frozen at.
    pub offer: Option<ProviderQuote>,
}

impl Case {
    /// Reads a payment back, with what was asked of providers for it.
    pub fn read(
        row: PaymentRow,
        pricing: Option<&str>,
        operations: impl IntoIterator<Item = OperationRow>,
    ) -> StoreResult<Case> {
        let request: StoredOrder = parse(&row.request)?;
        let progress: StoredProgress = parse(&row.standing.progress)?;
        let priced: StoredPricing = pricing.map(parse).transpose()?.unwrap_or_default();
        let damaged = |what: &str| StoreError::unexpected(format!("payment {}: {what}", row.payment_id));
        let parts = StateParts {
            name: row.standing.state,
            unknown: progress.unknown,
            held: progress.held,
            is_returned: progress.is_returned,
        };
        let payin = PayIn::new(Some(row.payin_source), row.payin_reference);
        let order = PaymentOrder {
            merchant_id: row.merchant_id,
            payin: payin.map_err(|_| damaged("its pay-in"))?,
            incoming: request.incoming_currency,
            incoming_amount: request.incoming_amount,
            outgoing: request.outgoing_currency,
            outgoing_target: request.outgoing_amount,
            destination_reference: progress.destination_reference.unwrap_or(request.destination_reference),
            occurred_at: request.occurred_at,
        };
        Ok(Case {
            payment: Payment {
                payment_id: row.payment_id,
                order,
                state: PaymentState::from_parts(parts).ok_or_else(|| damaged("its state"))?,
                version: row.version,
                reason: row.standing.reason,
                blocked: row.standing.blocked,
                expired_quotes: progress.expired_quotes,
                late: progress.late.map(|late| Late { kind: late.kind, moved: late.moved }),
                corridor_version: progress.corridor_version.map(CorridorVersion),
                provider: row.standing.provider,
                quote: progress.quote.map(StoredQuote::into_domain),
                split: priced.split.map(StoredSplit::into_domain),
                received_at: row.created_at,
            },
            operations: operations.into_iter().map(Tracked::read).collect::<StoreResult<_>>()?,
            steps: progress.steps,
            tries: progress.tries,
            news_version: progress.news_version.unwrap_or(row.version),
            changed_at: row.standing.changed_at,
            due_at: row.standing.due_at,
            offer: priced.offer.map(StoredOffer::into_domain),
        })
    }

    /// A payment that has just come in, due at once.
    #[must_use]
    pub fn received(order: PaymentOrder, now: Timestamp) -> Case {
        let payment_id = PaymentId::of(order.merchant_id, &order.payin);
        Case {
            payment: Payment {
                payment_id,
                order,
                state: PaymentState::Received,
                version: 1,
                reason: None,
                blocked: None,
                expired_quotes: 0,
                late: None,
                corridor_version: None,
                provider: None,
                quote: None,
                split: None,
                received_at: now,
            },
            operations: Vec::new(),
            steps: 0,
            tries: 0,
            news_version: 1,
            changed_at: now,
            due_at: Some(now),
            offer: None,
        }
    }

    /// The merchant.
    #[must_use]
    pub fn merchant_id(&self) -> MerchantId {
        self.payment.order.merchant_id
    }

    /// The row of a payment that is created.
    #[must_use]
    pub fn row(&self) -> PaymentRow {
        let order = &self.payment.order;
        PaymentRow {
            merchant_id: order.merchant_id,
            payment_id: self.payment.payment_id,
            payin_source: order.payin.source().to_owned(),
            payin_reference: order.payin.reference().to_owned(),
            standing: self.standing(),
            version: self.payment.version,
            created_at: self.payment.received_at,
            request: json(&StoredOrder {
                incoming_currency: order.incoming,
                incoming_amount: order.incoming_amount,
                outgoing_currency: order.outgoing,
                outgoing_amount: order.outgoing_target,
                destination_reference: order.destination_reference.clone(),
                occurred_at: order.occurred_at,
            }),
        }
    }

    /// What is created of a payment that comes in.
    #[must_use]
    pub fn new_payment(&self) -> NewPayment {
        NewPayment { row: self.row(), likeness: self.payment.order.likeness() }
    }

    /// What a step writes anew.
    #[must_use]
    pub fn standing(&self) -> PaymentStanding {
        let payment = &self.payment;
        let StateParts { name, unknown, held, is_returned } = payment.state.parts();
        let progress = StoredProgress {
            unknown,
            held,
            is_returned,
            expired_quotes: payment.expired_quotes,
            late: payment.late.map(|late| StoredLate { kind: late.kind, moved: late.moved }),
            corridor_version: payment.corridor_version.map(|version| version.0),
            quote: payment.quote.map(StoredQuote::of),
            destination_reference: Some(payment.order.destination_reference.clone()),
            steps: self.steps,
            tries: self.tries,
            news_version: Some(self.news_version),
        };
        PaymentStanding {
            state: name,
            reason: payment.reason,
            blocked: payment.blocked,
            provider: payment.provider.clone(),
            changed_at: self.changed_at,
            due_at: self.due_at,
            progress: json(&progress),
        }
    }

    /// The provider's offer and how what was bought is divided, as JSON.
    #[must_use]
    pub fn pricing(&self) -> String {
        json(&StoredPricing {
            offer: self.offer.as_ref().map(StoredOffer::of),
            split: self.payment.split.map(StoredSplit::of),
        })
    }

    /// What the newest quote promised of a conversion.
    #[must_use]
    pub fn promise(&self) -> Option<Promise> {
        let gross = self.payment.quote.as_ref()?.quote.gross;
        Some(Promise { gross, buy_amount: self.offer.as_ref()?.buy_amount })
    }

    /// What was promised of this operation. What was prepared before promises were kept has the newest.
    #[must_use]
    pub fn promise_of(&self, place: usize) -> Option<Promise> {
        self.operations[place].promise.or_else(|| self.promise())
    }

    /// The operation whose outcome the payment waits for: the last of its kind.
    #[must_use]
    pub fn awaited(&self) -> Option<usize> {
        let kind = self.payment.state.awaits()?;
        self.operations.iter().rposition(|tracked| tracked.operation.request.kind() == kind)
    }

    /// Whether nothing has changed since a version that somebody saw, but how often the engine has waited and
    /// looked.
    #[must_use]
    pub fn is_as_seen(&self, version: u64) -> bool {
        (self.news_version..=self.payment.version).contains(&version)
    }

    /// What its state allows an operator to do.
    pub fn allowed_acts(&self) -> impl Iterator<Item = Act> {
        let standing = self.machine_standing();
        Act::all().filter(move |act| transition(&standing, PaymentEvent::Operator(*act)).is_ok())
    }

    /// The operation that a person can say something of: the awaited one, or the one that moved, or may move,
    /// without the payment.
    #[must_use]
    pub fn questioned(&self) -> Option<usize> {
        self.awaited().or_else(|| {
            let late = self.payment.late?;
            // What people have decided about stays late: the one that is in question comes first.
            let rank = |tracked: &Tracked| match tracked.operation.memory.status {
                OperationStatus::Succeeded if late.moved => 2,
                status if status.is_open() && !late.moved => 2,
                OperationStatus::Returned => 1,
                _ => 0,
            };
            let is_late = |tracked: &Tracked| {
                tracked.operation.memory.is_late && tracked.operation.request.kind() == late.kind
            };
            let places = (0..self.operations.len()).filter(|place| is_late(&self.operations[*place]));
            places.max_by_key(|place| (rank(&self.operations[*place]), *place))
        })
    }

    /// An operation that has ended, and that its provider is asked about again: it hinted at it since it last
    /// answered a look-up, or its answer could not be recorded.
    #[must_use]
    pub fn hinted(&self) -> Option<usize> {
        self.operations.iter().position(Tracked::is_hinted)
    }

    /// A payout or refund that is with somebody although the payment went on without it; or a conversion.
    #[must_use]
    pub fn astray(&self) -> Option<Late> {
        let operations = self.operations.iter().map(|tracked| &tracked.operation);
        let moved = operations.filter(|operation| {
            operation.memory.is_late && operation.memory.status == OperationStatus::Succeeded
        });
        let kind = moved
            .map(|operation| operation.request.kind())
            .max_by_key(|kind| *kind != OperationKind::Conversion)?;
        Some(Late { kind, moved: true })
    }

    /// Whether an operation is of the provider that the payment is bound to.
    #[must_use]
    pub fn is_own(&self, place: usize) -> bool {
        self.payment.provider.as_ref() == Some(&self.operations[place].operation.provider)
    }

    /// The operations that nobody waits for and that may still move: what was given up, and what is late,
    /// until its outcome is known.
    #[must_use]
    pub fn doubtful(&self) -> Vec<usize> {
        let is_doubtful = |tracked: &Tracked| {
            let memory = tracked.operation.memory;
            memory.status == OperationStatus::GivenUp || memory.is_late && memory.status.is_open()
        };
        (0..self.operations.len()).filter(|place| is_doubtful(&self.operations[*place])).collect()
    }

    /// Those of them that are looked up while the payment waits for none: what was given up, for some time.
    #[must_use]
    pub fn watched(&self) -> Vec<usize> {
        let is_watched = |tracked: &Tracked| {
            let given_up_after = tracked.given_up_after.unwrap_or_default();
            let is_young = tracked.age() < given_up_after.saturating_add(GIVEN_UP_WATCHED_FOR);
            is_young || tracked.operation.memory.status != OperationStatus::GivenUp
        };
        self.doubtful().into_iter().filter(|place| is_watched(&self.operations[*place])).collect()
    }

    /// The operation with this id.
    #[must_use]
    pub fn position(&self, id: OperationId) -> Option<usize> {
        self.operations.iter().position(|tracked| tracked.operation.operation_id == id)
    }

    /// The number of the next operation of a kind.
    #[must_use]
    pub fn next_attempt(&self, kind: OperationKind) -> u32 {
        let of_kind = self.operations.iter().filter(|tracked| tracked.operation.request.kind() == kind);
        of_kind.map(|tracked| tracked.operation.attempt).max().unwrap_or(0) + 1
    }

    /// The status of the operation that the payment waits for.
    #[must_use]
    pub fn awaited_status(&self) -> Option<OperationStatus> {
        self.awaited().map(|place| self.operations[place].operation.memory.status)
    }

    /// What the machine knows of the payment.
    #[must_use]
    pub fn machine_standing(&self) -> Standing {
        let is_unsent = self.awaited().is_some_and(|place| self.operations[place].is_unsent());
        self.payment.standing(self.awaited_status(), is_unsent)
    }
}

#[expect(clippy::expect_used, reason = "strings, numbers and flags cannot fail to serialize into memory")]
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what is stored is strings, numbers and flags")
}

fn parse<'de, T: Deserialize<'de>>(text: &'de str) -> StoreResult<T> {
    serde_json::from_str(text).map_err(|fault| StoreError::Unexpected(fault.into()))
}
