//! Why a payment is where it is: the reason of its state, and what keeps it from going on. Each is an error
//! code of the contract.

use crate::error_code::ErrorCode;
use crate::named::named;

named! {
    /// The reason of a payment's state.
    pub enum Reason, "the reason of a payment's state" {
        /// No quote: the amount, the limits, the provider, or twenty quotes that expired.
        QuoteRefused = "quote_refused",
        /// The merchant has no corridor for these assets.
        CurrencyNotEnabled = "currency_not_enabled",
        /// The provider does not know the payer.
        SenderNotRegistered = "sender_not_registered",
        /// Nothing was converted.
        ConversionRefused = "conversion_refused",
        /// Nothing was paid out, or paid back.
        PayoutRefused = "payout_refused",
        /// The provider has the operation and is not done.
        ProviderStillProcessing = "provider_still_processing",
        /// Nobody knows whether it was converted.
        ConversionOutcomeUnknown = "conversion_outcome_unknown",
        /// Nobody knows whether it was paid out, or paid back.
        PayoutOutcomeUnknown = "payout_outcome_unknown",
        /// A step of ours failed.
        UnexpectedFailure = "unexpected_failure",
    }
}

impl Reason {
    /// The code of the contract.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::QuoteRefused => ErrorCode::QuoteRefused,
            Self::CurrencyNotEnabled => ErrorCode::CurrencyNotEnabled,
            Self::SenderNotRegistered => ErrorCode::SenderNotRegistered,
            Self::ConversionRefused => ErrorCode::ConversionRefused,
            Self::PayoutRefused => ErrorCode::PayoutRefused,
            Self::ProviderStillProcessing => ErrorCode::ProviderStillProcessing,
            Self::ConversionOutcomeUnknown => ErrorCode::ConversionOutcomeUnknown,
            Self::PayoutOutcomeUnknown => ErrorCode::PayoutOutcomeUnknown,
            Self::UnexpectedFailure => ErrorCode::UnexpectedFailure,
        }
    }
}

named! {
    /// What keeps a payment from going on and is not its fault. It changes no state: the engine tries again
    /// by itself.
    pub enum Blocked, "what blocks a payment" {
        /// The provider was not reached, or turned us away before it did anything.
        ProviderUnavailable = "provider_unavailable",
        /// The provider does not accept our credentials, or answered what we cannot act on.
        ProviderCallFailed = "provider_call_failed",
        /// The rail is switched off.
        RailInactive = "rail_inactive",
        /// The provider has no account for the pair.
        FxAccountsMissing = "fx_accounts_missing",
        /// The payout wallet cannot pay the network's fee.
        PayoutWalletOutOfGas = "payout_wallet_out_of_gas",
    }
}

impl Blocked {
    /// The code of the contract.
    #[must_use]
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::ProviderUnavailable => ErrorCode::ProviderUnavailable,
            Self::ProviderCallFailed => ErrorCode::ProviderCallFailed,
            Self::RailInactive => ErrorCode::RailInactive,
            Self::FxAccountsMissing => ErrorCode::FxAccountsMissing,
            Self::PayoutWalletOutOfGas => ErrorCode::PayoutWalletOutOfGas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_the_text_of_its_code() {
        for reason in Reason::ALL {
            assert_eq!(reason.as_str(), reason.code().as_str());
        }
        for blocked in Blocked::ALL {
            assert_eq!(blocked.as_str(), blocked.code().as_str());
        }
    }
}
