//! The largest payout that a settlement's own figures allow: whoever records one by hand is checked as the
//! engine is.

use super::Settlement;
use super::fault::ImportFault;
use crate::error_code::ErrorCode;
use crate::money::Decimal;
use crate::quote::payout_rounded_down;

/// `incoming / rate` less the fees, rounded down to the decimals of the record's outgoing amount: the
/// asset's, if we know it. Zero if the fees leave nothing. It bounds both sides: an outgoing amount that is
/// fixed asks for an incoming amount rounded up.
///
/// `None` if the record has no outgoing amount, or the figures allow more than an amount can say.
#[must_use]
pub fn largest_outgoing_amount(settlement: &Settlement) -> Option<Decimal> {
    let Settlement { incoming_amount, conversion_rate, fee_percentage, fee_fixed, .. } = *settlement;
    let decimals = settlement.outgoing_amount?.scale();
    payout_rounded_down(incoming_amount, conversion_rate, fee_percentage, fee_fixed, decimals)
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
    use crate::quote::FixedSide;

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
    fn figures_with_too_many_digits_on_the_way_are_checked_all_the_same() {
        // A quote refuses each: the amount before fees, or the fee at the payout's scale, has too many
        // digits.
        let gross = Settlement {
            incoming_amount: "9".repeat(38).parse().unwrap(),
            conversion_rate: "0.1".parse().unwrap(),
            fee_percentage: "99.9".parse().unwrap(),
            fee_fixed: Decimal::ZERO,
            ..settlement(&"9".repeat(38))
        };
        assert!(problem(&gross).unwrap().contains(&format!("is more than {}", "9".repeat(36))));
        let fee = Settlement { fee_fixed: "9".repeat(38).parse().unwrap(), ..settlement("0.01") };
        assert!(problem(&fee).unwrap().contains("is more than 0.00,"));
    }

    #[test]
    fn an_asset_that_we_do_not_know_has_the_scale_that_it_came_with() {
        let unknown = |outgoing| Settlement {
            outgoing_currency: "XYZ".to_owned(),
            fee_fixed: "0.25".parse().unwrap(),
            ..settlement(outgoing)
        };
        for (outgoing, largest) in [("181", "181"), ("181.2", "181.1"), ("181.15", "181.14")] {
            let settlement = unknown(outgoing);
            assert_eq!(largest_outgoing_amount(&settlement).unwrap().to_string(), largest);
            assert_eq!(problem(&settlement).is_some(), outgoing != largest, "{outgoing}");
        }
    }
}
