//! What can happen to a payment.

use crate::named::named;
use crate::operation::{News, OperationKind, Refusal, RefusalCode};
use crate::reason::Reason;

/// What happened to a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaymentEvent {
    /// The engine froze its amounts at a quote.
    Quoted,
    /// There is no quote for it.
    QuoteRefused(QuoteRefusal),
    /// Its quote expired before a conversion was prepared.
    QuoteExpired,
    /// The engine prepared its conversion.
    ConversionPrepared,
    /// Its codes are equal: there is nothing to convert.
    ConversionSkipped,
    /// The engine prepared its payout.
    PayoutPrepared,
    /// Something became known of one of its operations.
    Operation(OperationKind, News),
    /// A step of it failed by our own fault, also when it was tried alone.
    StepFailed,
    /// An operator acts.
    Operator(Act),
}

impl PaymentEvent {
    /// Every event, in the order of a payment's way. Refusals have the code of their kind of operation.
    #[must_use]
    pub fn all() -> Vec<PaymentEvent> {
        let quoting = [Self::Quoted].into_iter().chain(QuoteRefusal::ALL.map(Self::QuoteRefused));
        let steps = [
            Self::QuoteExpired,
            Self::ConversionPrepared,
            Self::ConversionSkipped,
            Self::PayoutPrepared,
            Self::StepFailed,
        ];
        let operations = OperationKind::ALL
            .iter()
            .flat_map(|kind| every_news(*kind).map(|news| Self::Operation(*kind, news)));
        let acts = Act::all().map(Self::Operator);
        quoting.chain(steps).chain(operations).chain(acts).collect()
    }

    /// A name for tables and pictures.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Quoted => "quoted".to_owned(),
            Self::QuoteRefused(refusal) => refusal.reason().to_string(),
            Self::QuoteExpired => "quote_expired".to_owned(),
            Self::ConversionPrepared => "conversion_prepared".to_owned(),
            Self::ConversionSkipped => "conversion_skipped".to_owned(),
            Self::PayoutPrepared => "payout_prepared".to_owned(),
            Self::Operation(kind, news) => format!("{kind}_{}", name_of(news)),
            Self::StepFailed => "step_failed".to_owned(),
            Self::Operator(Act::Retry) => "retry".to_owned(),
            Self::Operator(Act::Refund) => "refund".to_owned(),
            Self::Operator(Act::Cancel) => "cancel".to_owned(),
            Self::Operator(Act::Returned) => "returned".to_owned(),
            Self::Operator(Act::Resolve(outcome)) => format!("resolve_{outcome}"),
        }
    }
}

fn every_news(kind: OperationKind) -> [News; 8] {
    let refusal = Refusal::of(match kind {
        OperationKind::Conversion => RefusalCode::ConversionRefused,
        OperationKind::Payout | OperationKind::Refund => RefusalCode::PayoutRefused,
    });
    [
        News::Succeeded,
        News::Refused(refusal),
        News::Refused(Refusal { quote_expired: true, ..refusal }),
        News::Unclear,
        News::Returned,
        News::LateSucceeded,
        News::LateReturned,
        News::Revived,
    ]
}

const fn name_of(news: News) -> &'static str {
    match news {
        News::Succeeded => "succeeded",
        News::Refused(Refusal { quote_expired: false, .. }) => "refused",
        News::Refused(Refusal { quote_expired: true, .. }) => "expired",
        News::Unclear => "unclear",
        News::Returned => "returned",
        News::LateSucceeded => "late_succeeded",
        News::LateReturned => "late_returned",
        News::Revived => "revived",
    }
}

/// Why there is no quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QuoteRefusal {
    /// The amount, the limits or the provider.
    Refused,
    /// The merchant has no corridor.
    CurrencyNotEnabled,
    /// The provider does not know the payer.
    SenderNotRegistered,
}

impl QuoteRefusal {
    /// Every reason.
    pub const ALL: [QuoteRefusal; 3] = [Self::Refused, Self::CurrencyNotEnabled, Self::SenderNotRegistered];

    /// The reason of a payment that fails by it.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Refused => Reason::QuoteRefused,
            Self::CurrencyNotEnabled => Reason::CurrencyNotEnabled,
            Self::SenderNotRegistered => Reason::SenderNotRegistered,
        }
    }
}

/// What an operator can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Let the engine try again.
    Retry,
    /// Pay the whole incoming amount back.
    Refund,
    /// Stop it while nothing is in flight, or what is to be has not been sent.
    Cancel,
    /// Say that the money came back.
    Returned,
    /// Say, with evidence, what became of the operation that nobody knows the outcome of.
    Resolve(Outcome),
}

impl Act {
    /// Every act.
    pub fn all() -> impl Iterator<Item = Act> {
        let resolutions = Outcome::ALL.iter().map(|outcome| Self::Resolve(*outcome));
        [Self::Retry, Self::Refund, Self::Cancel, Self::Returned].into_iter().chain(resolutions)
    }
}

named! {
    /// What an operator says became of an operation.
    pub enum Outcome, "an outcome: paid, not_paid, converted, not_converted, refunded or not_refunded" {
        /// The destination has the whole outgoing amount.
        Paid = "paid",
        /// Nothing was paid out, nor will be.
        NotPaid = "not_paid",
        /// It was converted.
        Converted = "converted",
        /// Nothing was converted, nor will be.
        NotConverted = "not_converted",
        /// The payer has the whole incoming amount back.
        Refunded = "refunded",
        /// Nothing was paid back, nor will be.
        NotRefunded = "not_refunded",
    }
}

impl Outcome {
    /// The kind of operation that it speaks of.
    #[must_use]
    pub const fn kind(self) -> OperationKind {
        match self {
            Self::Paid | Self::NotPaid => OperationKind::Payout,
            Self::Converted | Self::NotConverted => OperationKind::Conversion,
            Self::Refunded | Self::NotRefunded => OperationKind::Refund,
        }
    }

    /// Whether the operation was done.
    #[must_use]
    pub const fn is_done(self) -> bool {
        match self {
            Self::Paid | Self::Converted | Self::Refunded => true,
            Self::NotPaid | Self::NotConverted | Self::NotRefunded => false,
        }
    }
}
