//! What a provider says of an operation, and whether it is what was asked for.

use super::{OperationKind, OperationRequest};
use crate::money::Decimal;
use crate::named::named;
use crate::reason::Reason;

named! {
    /// The status of an operation at its provider.
    pub enum ReportStatus, "a status that a provider can give" {
        /// Not done yet.
        Pending = "pending",
        /// Done, as far as the rail can be final.
        Succeeded = "succeeded",
        /// Not done, and never will be.
        Refused = "refused",
        /// Done, and the money came back.
        Returned = "returned",
    }
}

/// A provider's word on one operation, signed, and of the very operation that was asked about. Its texts are
/// as they came: nothing in them is known to be true of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was asked. A provider does not know it of what was voided before its request came.
    pub kind: Option<OperationKind>,
    /// How far it is.
    pub status: ReportStatus,
    /// The asset that left us; may be missing of what was refused.
    pub asset: Option<String>,
    /// How much of it.
    pub amount: Option<Decimal>,
    /// What a conversion bought.
    pub bought_asset: Option<String>,
    /// How much of it.
    pub bought_amount: Option<Decimal>,
    /// Where a payout went.
    pub destination_reference: Option<String>,
    /// The provider's own name for the operation.
    pub provider_reference: Option<String>,
    /// Why it was refused.
    pub refusal: Option<Refusal>,
    /// The same in the provider's own words.
    pub reason: Option<String>,
}

named! {
    /// Why a provider refuses.
    pub enum RefusalCode, "a code of a refusal" {
        /// The payout, or the refund.
        PayoutRefused = "payout_refused",
        /// The conversion.
        ConversionRefused = "conversion_refused",
        /// The quote.
        QuoteRefused = "quote_refused",
        /// The payer is not registered.
        SenderNotRegistered = "sender_not_registered",
    }
}

impl RefusalCode {
    /// The reason of a payment that fails by it.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::PayoutRefused => Reason::PayoutRefused,
            Self::ConversionRefused => Reason::ConversionRefused,
            Self::QuoteRefused => Reason::QuoteRefused,
            Self::SenderNotRegistered => Reason::SenderNotRegistered,
        }
    }
}

/// A refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Refusal {
    /// Why.
    pub code: RefusalCode,
    /// Whether another quote would do: the one that was used had expired.
    pub quote_expired: bool,
}

impl Refusal {
    /// The `reason` of a refusal that another quote would mend.
    pub const QUOTE_EXPIRED: &'static str = "quote_expired";

    /// A refusal that another quote would not mend.
    #[must_use]
    pub const fn of(code: RefusalCode) -> Refusal {
        Refusal { code, quote_expired: false }
    }
}

/// What a quote promised: the measure of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// What the merchant's amounts need, in the outgoing asset.
    pub gross: Decimal,
    /// What the provider said it would buy.
    pub buy_amount: Decimal,
}

/// Whether what was done is what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Judgement {
    /// It is.
    AsAsked,
    /// Another amount, asset or destination: a person must look.
    Otherwise,
}

/// A conversion may buy up to this part less or more than was quoted: a hundredth.
const QUOTE_TOLERANCE_DIVISOR: u128 = 100;

impl Report {
    /// Nothing more than that it is refused.
    #[must_use]
    pub const fn refused(refusal: Refusal, reason: Option<String>) -> Report {
        Report {
            kind: None,
            status: ReportStatus::Refused,
            asset: None,
            amount: None,
            bought_asset: None,
            bought_amount: None,
            destination_reference: None,
            provider_reference: None,
            refusal: Some(refusal),
            reason,
        }
    }

    /// Judges the amounts of an operation that the provider calls done.
    ///
    /// A conversion is done when it sold exactly what was asked and bought at least the gross, at most 1 %
    /// off the quote. Without a promise no conversion is as asked.
    #[must_use]
    pub fn judge(&self, request: &OperationRequest, promise: Option<&Promise>) -> Judgement {
        let (asset, amount) = request.outlay();
        let is_outlay = self.kind == Some(request.kind())
            && self.asset.as_deref() == Some(asset.code())
            && self.amount == Some(amount);
        let is_rest = match request {
            OperationRequest::Conversion { buy, .. } => {
                let bought = self.bought_amount.and_then(|bought| buy.amount(bought));
                self.bought_asset.as_deref() == Some(buy.code())
                    && bought.zip(promise).is_some_and(|(bought, promise)| promise.is_kept_by(bought))
            }
            OperationRequest::Payout { destination_reference, .. } => {
                self.destination_reference.as_ref().is_none_or(|told| told == destination_reference)
            }
            OperationRequest::Refund { .. } => true,
        };
        if is_outlay && is_rest { Judgement::AsAsked } else { Judgement::Otherwise }
    }

    /// Whether it calls a conversion done, and says that it bought something else than is known.
    #[must_use]
    pub fn bought_otherwise(&self, request: &OperationRequest, known: Option<Decimal>) -> bool {
        let OperationRequest::Conversion { buy, .. } = request else { return false };
        let at_scale = |bought: Option<Decimal>| bought.and_then(|bought| buy.amount(bought));
        self.status == ReportStatus::Succeeded && at_scale(self.bought_amount) != at_scale(known)
    }

    /// What classification needs of the report. A refusal without a reason has the one of its kind.
    #[must_use]
    pub fn answer(&self, request: &OperationRequest, promise: Option<&Promise>) -> Answer {
        match self.status {
            ReportStatus::Pending => Answer::Pending,
            ReportStatus::Succeeded => Answer::Succeeded(self.judge(request, promise)),
            ReportStatus::Refused => Answer::Refused(self.refusal.unwrap_or_else(|| {
                Refusal::of(match request {
                    OperationRequest::Conversion { .. } => RefusalCode::ConversionRefused,
                    OperationRequest::Payout { .. } | OperationRequest::Refund { .. } => {
                        RefusalCode::PayoutRefused
                    }
                })
            })),
            ReportStatus::Returned => Answer::Returned,
        }
    }
}

impl Promise {
    fn is_kept_by(&self, bought: Decimal) -> bool {
        bought >= self.gross && self.is_near(bought)
    }

    /// Whether what was bought, at the scale of its asset, is at most 1 % off the quote.
    #[must_use]
    pub fn is_near(&self, bought: Decimal) -> bool {
        let Some(quoted) = self.buy_amount.at_scale(bought.scale()) else {
            return false;
        };
        let off = bought.coefficient().abs_diff(quoted.coefficient());
        off <= quoted.coefficient() / QUOTE_TOLERANCE_DIVISOR
    }
}

/// A signed word on an operation, judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The provider has it and is not done.
    Pending,
    /// Done, as asked or otherwise.
    Succeeded(Judgement),
    /// Not done, and never will be.
    Refused(Refusal),
    /// Done, and the money came back.
    Returned,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::Asset;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    fn asset(code: &str) -> Asset {
        code.parse().unwrap()
    }

    fn report(status: ReportStatus) -> Report {
        Report {
            kind: Some(OperationKind::Conversion),
            status,
            asset: Some("BRL".to_owned()),
            amount: Some(decimal("1000.00")),
            bought_asset: Some("USDC".to_owned()),
            bought_amount: Some(decimal("184.162062")),
            destination_reference: None,
            provider_reference: Some("p1".to_owned()),
            refusal: None,
            reason: None,
        }
    }

    fn conversion() -> OperationRequest {
        OperationRequest::Conversion {
            payin_reference: "pix 1".to_owned(),
            quote_id: "q1".to_owned(),
            sell: asset("BRL"),
            sell_amount: decimal("1000.00"),
            buy: asset("USDC"),
        }
    }

    fn promise() -> Promise {
        Promise { gross: decimal("183.000000"), buy_amount: decimal("184") }
    }

    #[test]
    fn a_conversion_is_done_if_it_sold_what_was_asked_and_bought_enough() {
        let done = report(ReportStatus::Succeeded);
        let judge = |report: Report| report.judge(&conversion(), Some(&promise()));
        assert_eq!(judge(done.clone()), Judgement::AsAsked);
        for (bought, expected) in [
            ("183", Judgement::AsAsked),
            ("182.999999", Judgement::Otherwise),
            ("185.84", Judgement::AsAsked),
            ("185.840001", Judgement::Otherwise),
            ("184.0000001", Judgement::Otherwise),
        ] {
            let report = Report { bought_amount: Some(decimal(bought)), ..done.clone() };
            assert_eq!(judge(report), expected, "{bought}");
        }
        let otherwise = [
            Report { amount: Some(decimal("999.99")), ..done.clone() },
            Report { amount: Some(decimal("1000.01")), ..done.clone() },
            Report { asset: Some("USD".to_owned()), ..done.clone() },
            Report { bought_asset: Some("USDT".to_owned()), ..done.clone() },
            Report { bought_asset: None, ..done.clone() },
            Report { bought_amount: None, ..done.clone() },
            Report { asset: None, ..done.clone() },
            Report { amount: None, ..done.clone() },
            Report { kind: Some(OperationKind::Refund), ..done.clone() },
            Report { kind: None, ..done.clone() },
        ];
        for report in otherwise {
            assert_eq!(judge(report.clone()), Judgement::Otherwise, "{report:?}");
        }
        assert_eq!(done.judge(&conversion(), None), Judgement::Otherwise, "nothing to measure it with");
    }

    #[test]
    fn less_than_a_hundredth_below_the_quote_is_enough_if_it_pays_for_the_gross() {
        let promise = Promise { gross: decimal("1"), buy_amount: decimal("184") };
        for (bought, expected) in [("182.16", Judgement::AsAsked), ("182.159999", Judgement::Otherwise)] {
            let report = Report { bought_amount: Some(decimal(bought)), ..report(ReportStatus::Succeeded) };
            assert_eq!(report.judge(&conversion(), Some(&promise)), expected, "{bought}");
        }
    }

    #[test]
    fn a_payout_is_done_if_asset_amount_and_destination_are_what_was_asked() {
        let request = OperationRequest::Payout {
            asset: asset("USDC"),
            amount: decimal("181.149631"),
            destination_reference: "wallet".to_owned(),
        };
        let done = Report {
            kind: Some(OperationKind::Payout),
            asset: Some("USDC".to_owned()),
            amount: Some(decimal("181.149631")),
            bought_asset: None,
            bought_amount: None,
            destination_reference: Some("wallet".to_owned()),
            ..report(ReportStatus::Succeeded)
        };
        assert_eq!(done.judge(&request, None), Judgement::AsAsked);
        let untold = Report { destination_reference: None, ..done.clone() };
        assert_eq!(untold.judge(&request, None), Judgement::AsAsked);
        for report in [
            Report { amount: Some(decimal("181.149630")), ..done.clone() },
            Report { amount: Some(decimal("181.149632")), ..done.clone() },
            Report { asset: Some("USDT".to_owned()), ..done.clone() },
            Report { destination_reference: Some("another".to_owned()), ..done.clone() },
        ] {
            assert_eq!(report.judge(&request, None), Judgement::Otherwise, "{report:?}");
        }
    }

    #[test]
    fn a_refusal_without_a_code_has_the_one_of_its_kind() {
        let refused = report(ReportStatus::Refused);
        let refusal = Refusal::of(RefusalCode::ConversionRefused);
        assert_eq!(refused.answer(&conversion(), None), Answer::Refused(refusal));
        let told = Refusal { code: RefusalCode::SenderNotRegistered, quote_expired: false };
        let told_so = Report { refusal: Some(told), ..refused };
        assert_eq!(told_so.answer(&conversion(), None), Answer::Refused(told));
        let refund = OperationRequest::Refund {
            asset: asset("BRL"),
            amount: decimal("1000.00"),
            payin_reference: "pix 1".to_owned(),
        };
        let refused = report(ReportStatus::Refused).answer(&refund, None);
        assert_eq!(refused, Answer::Refused(Refusal::of(RefusalCode::PayoutRefused)));
    }
}
