//! The largest payout that a settlement's own figures allow: whoever records one by hand is checked as the
//! engine is.

use super::{ImportFault, Settlement};
use crate::error_code::ErrorCode;
use crate::money::Decimal;
use crate::quote::{FixedSide, QuoteFault, QuoteInput, quote};

/// `incoming / rate` less the fees, rounded down to the decimals of the outgoing asset; zero if the fees
/// leave nothing. It bounds both sides: an outgoing amount that is fixed asks for an incoming amount rounded
/// up.
///
/// `None` if the record has no outgoing amount, or the figures allow more than an amount can say.
#[must_use]
pub fn largest_outgoing_amount(settlement: &Settlement) -> Option<Decimal> {
    // The amounts of a record have the scale of their asset, if we know it; if not, the one they came with.
    let outgoing_decimals = settlement.outgoing_amount?.scale().max(settlement.fee_fixed.scale());
    let input = QuoteInput {
        fixed_side: FixedSide::Incoming,
        amount: settlement.incoming_amount,
        incoming_decimals: settlement.incoming_amount.scale(),
        outgoing_decimals,
        conversion_rate: settlement.conversion_rate,
        fee_percentage: settlement.fee_percentage,
        fee_fixed: settlement.fee_fixed,
    };
    match quote(&input) {
        Ok(quote) => Some(quote.outgoing_amount),
        Err(QuoteFault::NotPositive | QuoteFault::PercentageTooHigh | QuoteFault::RateZero) => {
            Decimal::new(0, outgoing_decimals)
        }
        Err(
            QuoteFault::OutOfRange | QuoteFault::AmountTooManyDecimals | QuoteFault::FeeFixedTooManyDecimals,
        ) => None,
    }
}

/// Refuses a settlement that pays out more than its own figures allow, and says how much they allow.
pub fn check_outgoing_amount(settlement: &Settlement) -> Result<(), ImportFault> {
    match (settlement.outgoing_amount, largest_outgoing_amount(settlement)) {
        (Some(amount), Some(largest)) if amount > largest => Err(ImportFault {
            field: "outgoing_amount".to_owned(),
            code: ErrorCode::ValidationFailed,
            problem: format!(
                "is more than {largest}, the most that incoming_amount, conversion_rate and the fees allow"
            ),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SettlementId;

    fn settlement(outgoing: &str) -> Settlement {
        Settlement {
            settlement_id: SettlementId::NIL,
            completed_at: None,
            occurred_at: "2026-01-31T09:30:00Z".parse().unwrap(),
            payin_reference: "pix 1".to_owned(),
            payout_reference: None,
            destination_reference: "wallet".to_owned(),
            incoming_currency: "BRL".to_owned(),
            incoming_amount: "1000.00".parse().unwrap(),
            outgoing_currency: "USDC".to_owned(),
            outgoing_amount: Some(outgoing.parse().unwrap()),
            conversion_rate: "5.43".parse().unwrap(),
            fixed_side: FixedSide::Incoming,
            fee_percentage: "1.5".parse().unwrap(),
            fee_percentage_amount: None,
            fee_fixed: "0.250000".parse().unwrap(),
        }
    }

    fn problem(settlement: &Settlement) -> Option<String> {
        check_outgoing_amount(settlement).err().map(|fault| fault.to_string())
    }

    #[test]
    fn the_largest_amount_is_allowed_and_one_unit_more_is_not() {
        assert_eq!(problem(&settlement("181.149631")), None);
        assert_eq!(problem(&settlement("0.000000")), None);
        let expected = "outgoing_amount: is more than 181.149631, the most that incoming_amount, \
                        conversion_rate and the fees allow";
        assert_eq!(problem(&settlement("181.149632")).as_deref(), Some(expected));
        assert_eq!(problem(&settlement("900.000000")).as_deref(), Some(expected));
    }

    #[test]
    fn a_fixed_outgoing_amount_has_the_same_bound() {
        let exact = Settlement {
            incoming_amount: "552.65".parse().unwrap(),
            fixed_side: FixedSide::Outgoing,
            ..settlement("100.000000")
        };
        assert_eq!(problem(&exact), None);
        let short = Settlement { incoming_amount: "552.64".parse().unwrap(), ..exact };
        assert!(problem(&short).is_some());
    }

    #[test]
    fn fees_that_leave_nothing_allow_nothing() {
        let all = Settlement { fee_fixed: "200.000000".parse().unwrap(), ..settlement("0.000001") };
        assert_eq!(largest_outgoing_amount(&all), Some(Decimal::ZERO));
        assert!(problem(&all).is_some());
        assert_eq!(problem(&Settlement { outgoing_amount: Some("0.000000".parse().unwrap()), ..all }), None);
    }

    #[test]
    fn what_has_no_amount_or_allows_more_than_an_amount_can_say_is_not_refused() {
        assert_eq!(problem(&Settlement { outgoing_amount: None, ..settlement("1") }), None);
        let huge = Settlement {
            incoming_amount: "9".repeat(38).parse().unwrap(),
            conversion_rate: "0.001".parse().unwrap(),
            ..settlement(&"9".repeat(38))
        };
        assert_eq!((largest_outgoing_amount(&huge), problem(&huge)), (None, None));
    }

    #[test]
    fn an_asset_that_we_do_not_know_has_the_scale_that_it_came_with() {
        let unknown = Settlement {
            outgoing_currency: "XYZ".to_owned(),
            fee_fixed: "0.25".parse().unwrap(),
            ..settlement("181.1")
        };
        assert_eq!(largest_outgoing_amount(&unknown).unwrap().to_string(), "181.14");
        let more = Settlement { outgoing_amount: Some("181.15".parse().unwrap()), ..unknown };
        assert!(problem(&more).is_some());
    }
}
