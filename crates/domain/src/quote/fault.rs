//! Why there is no quote.

/// The reason for a refused quote. The caller sees `quote_refused`, the log shows this. The first two are
/// results, the others are broken preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum QuoteFault {
    /// The given amount is zero, or the fees leave nothing to pay out.
    #[error("quote refused: no positive amount is left to pay out")]
    NotPositive,
    /// An amount has more significant digits than a decimal can hold.
    #[error("quote refused: an amount has too many significant digits")]
    OutOfRange,
    /// The conversion rate is zero.
    #[error("quote refused: the conversion rate is zero")]
    RateZero,
    /// The percentage fee is 100 % or more.
    #[error("quote refused: the percentage fee is 100 % or more")]
    PercentageTooHigh,
    /// The given amount has more decimals than its asset can transfer.
    #[error("quote refused: the amount has more decimals than its asset")]
    AmountTooManyDecimals,
    /// The fixed fee has more decimals than the outgoing asset can transfer.
    #[error("quote refused: the fixed fee has more decimals than the outgoing asset")]
    FeeFixedTooManyDecimals,
}

impl QuoteFault {
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
