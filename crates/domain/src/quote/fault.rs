//! Why there is no quote.

/// A quote was refused: the caller sees `quote_refused`, the log sees the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("quote refused: {reason}")]
pub struct QuoteRefused {
    /// What stood in the way.
    pub reason: RefusalReason,
}

impl From<RefusalReason> for QuoteRefused {
    fn from(reason: RefusalReason) -> Self {
        Self { reason }
    }
}

/// What stands in the way of a quote. The first two are results, the others are broken preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RefusalReason {
    /// The given amount is zero, or the fees leave nothing to pay out.
    #[error("no positive amount is left to pay out")]
    NotPositive,
    /// An amount has more significant digits than a decimal can hold.
    #[error("an amount has too many significant digits")]
    OutOfRange,
    /// The conversion rate is zero.
    #[error("the conversion rate is zero")]
    RateZero,
    /// The percentage fee is 100 % or more.
    #[error("the percentage fee is 100 % or more")]
    PercentageTooHigh,
    /// The given amount has more decimals than its asset can transfer.
    #[error("the amount has more decimals than its asset")]
    AmountTooManyDecimals,
    /// The fixed fee has more decimals than the outgoing asset can transfer.
    #[error("the fixed fee has more decimals than the outgoing asset")]
    FeeFixedTooManyDecimals,
}

impl RefusalReason {
    /// A stable name for logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotPositive => "not_positive",
            Self::OutOfRange => "out_of_range",
            Self::RateZero => "rate_zero",
            Self::PercentageTooHigh => "percentage_too_high",
            Self::AmountTooManyDecimals => "amount_too_many_decimals",
            Self::FeeFixedTooManyDecimals => "fee_fixed_too_many_decimals",
        }
    }
}
