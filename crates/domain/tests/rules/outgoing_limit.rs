//! What the engine's quoting pays out is what a settlement recorded by hand may pay out, and one unit more is
//! not.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorTerms};
use settle_domain::ids::SettlementId;
use settle_domain::money::{Asset, Decimal};
use settle_domain::pricing::CorridorPricing;
use settle_domain::quote::FixedSide;
use settle_domain::quoting::{FrozenQuote, ProviderQuote, QuotingFault, Wanted, freeze};
use settle_domain::settlement::{Settlement, check_outgoing_amount, largest_outgoing_amount};

const CASES: u32 = 4_000;

/// We turn a failure into a named test, so proptest keeps no file of seeds.
fn config() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}

/// A corridor, its spread, what came in, and what a provider would buy.
#[derive(Debug)]
struct Case {
    corridor: Corridor,
    pricing: CorridorPricing,
    came_in: Decimal,
    bought: Decimal,
}

fn cases() -> impl Strategy<Value = Case> {
    let asset = || prop::sample::select(Asset::ALL.to_vec());
    let units = || prop_oneof![1..1_000_u128, 1..10_u128.pow(12), 1..10_u128.pow(28)];
    let percentage = prop_oneof![Just(0), 0..10_000_u128];
    let fee = prop_oneof![Just(0), 0..1_000_u128, 0..10_u128.pow(9)];
    let spread = prop_oneof![Just(0), 0..500_u128];
    (asset(), asset(), units(), units(), percentage, fee, spread).prop_map(
        |(incoming, outgoing, came_in, bought, percentage, fee, spread)| {
            let amount = |units, asset: Asset| Decimal::new(units, asset.decimals()).unwrap();
            let terms = CorridorTerms {
                incoming,
                outgoing,
                fee_percentage: Decimal::new(percentage % 10_000, 2).unwrap(),
                fee_fixed: amount(fee, outgoing),
                minimum: None,
                maximum: None,
                provider: "sandbox".parse().unwrap(),
                alert_after: ALERT_AFTER,
            };
            Case {
                corridor: Corridor::new(terms).unwrap(),
                pricing: CorridorPricing::new(Decimal::new(spread, 2).unwrap(), None, None).unwrap(),
                came_in: amount(came_in, incoming),
                bought: amount(bought, outgoing),
            }
        },
    )
}

fn frozen(case: &Case, outgoing_target: Option<Decimal>) -> Result<FrozenQuote, QuotingFault> {
    let offer = ProviderQuote {
        quote_id: "quote".to_owned(),
        sell_amount: case.came_in,
        buy_amount: case.bought,
        rate: None,
        expires_at: "2026-01-31T09:30:00Z".parse().unwrap(),
    };
    let wanted = Wanted { incoming_amount: case.came_in, outgoing_target };
    freeze(&case.corridor, &case.pricing, &wanted, &offer)
}

/// The record of a payment that was settled at these amounts, but for the outgoing one.
fn recorded(case: &Case, frozen: &FrozenQuote, outgoing_amount: Decimal) -> Settlement {
    let terms = case.corridor.terms();
    Settlement {
        settlement_id: SettlementId::NIL,
        completed_at: None,
        occurred_at: "2026-01-31T09:30:00Z".parse().unwrap(),
        payin_reference: "pix".to_owned(),
        payout_reference: None,
        destination_reference: "wallet".to_owned(),
        incoming_currency: terms.incoming.code().to_owned(),
        incoming_amount: frozen.quote.incoming_amount,
        outgoing_currency: terms.outgoing.code().to_owned(),
        outgoing_amount: Some(outgoing_amount),
        conversion_rate: frozen.conversion_rate,
        fixed_side: frozen.fixed_side,
        fee_percentage: frozen.fee_percentage,
        fee_percentage_amount: Some(frozen.quote.fee_percentage_amount),
        fee_fixed: frozen.quote.fee_fixed,
    }
}

/// Checks what the engine froze, the largest amount, and one unit more. Gives the largest.
fn check(case: &Case, frozen: &FrozenQuote) -> Decimal {
    let quoted = frozen.quote.outgoing_amount;
    let settlement = recorded(case, frozen, quoted);
    assert_eq!(check_outgoing_amount(&settlement), Ok(()));
    let largest = largest_outgoing_amount(&settlement).unwrap();
    assert_eq!(check_outgoing_amount(&recorded(case, frozen, largest)), Ok(()));
    let more = Decimal::new(largest.coefficient() + 1, largest.scale()).unwrap();
    let fault = check_outgoing_amount(&recorded(case, frozen, more)).unwrap_err();
    assert_eq!(fault.field, "outgoing_amount");
    assert!(fault.problem.contains(&format!("more than {largest},")), "{}", fault.problem);
    largest
}

#[test]
fn what_the_engine_quotes_may_be_recorded_and_one_unit_more_than_the_largest_not() {
    let fixed = [Cell::new(0), Cell::new(0)];
    let ran = TestRunner::new(config()).run(&cases(), |case| {
        let Ok(incoming) = frozen(&case, None) else { return Ok(()) };
        let largest = check(&case, &incoming);
        assert_eq!(incoming.quote.outgoing_amount, largest, "the engine pays out all that it may");
        fixed[0].set(fixed[0].get() + 1);
        // The same amount as a target: what came in is often just what it needs.
        let target = frozen(&case, Some(largest)).unwrap();
        assert!(check(&case, &target) >= largest);
        fixed[1].set(fixed[1].get() + u32::from(target.fixed_side == FixedSide::Outgoing));
        Ok(())
    });
    ran.unwrap();
    assert!(fixed.iter().all(|number| number.get() > CASES / 10), "both sides are tried: {fixed:?}");
}
