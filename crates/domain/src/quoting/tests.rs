//! Which rate and which side a payment gets, what is refused, and how what was bought is divided.

use proptest::prelude::*;

use super::*;
use crate::corridor::{ALERT_AFTER, CorridorTerms};

fn decimal(text: &str) -> Decimal {
    text.parse().expect("a decimal")
}

fn corridor() -> Corridor {
    between("BRL", "USDC", "1.5", "0.25")
}

fn between(incoming: &str, outgoing: &str, percentage: &str, fixed: &str) -> Corridor {
    let terms = CorridorTerms {
        incoming: incoming.parse().unwrap(),
        outgoing: outgoing.parse().unwrap(),
        fee_percentage: decimal(percentage),
        fee_fixed: decimal(fixed),
        minimum: Some(decimal("1")),
        maximum: Some(decimal("100000000")),
        provider: "sandbox".parse().unwrap(),
        alert_after: ALERT_AFTER,
    };
    Corridor::new(terms).unwrap()
}

fn pricing(spread: &str, commission: &str) -> CorridorPricing {
    CorridorPricing::new(decimal(spread), Some("acme".to_owned()), Some(decimal(commission))).unwrap()
}

fn offer(sell: &str, buy: &str, rate: Option<&str>) -> ProviderQuote {
    ProviderQuote {
        quote_id: "q1".to_owned(),
        sell_amount: decimal(sell),
        buy_amount: decimal(buy),
        rate: rate.map(decimal),
        expires_at: "2026-01-31T09:30:00Z".parse().unwrap(),
    }
}

fn wanted(amount: &str) -> Wanted {
    Wanted { incoming_amount: decimal(amount), outgoing_target: None }
}

fn rate(spread: &str, offer: &ProviderQuote) -> String {
    let wanted = Wanted { incoming_amount: offer.sell_amount, outgoing_target: None };
    let frozen = freeze(&corridor(), &pricing(spread, "0"), &wanted, offer).unwrap();
    frozen.conversion_rate.to_string()
}

#[test]
fn without_a_spread_the_merchant_gets_the_providers_own_rate_if_it_agrees() {
    assert_eq!(rate("0", &offer("1000.00", "184.162062", Some("5.43"))), "5.43");
    assert_eq!(rate("0", &offer("1000.00", "184.162062", Some("5.4300"))), "5.43");
    assert_eq!(rate("0", &offer("1000.00", "184.162062", None)), "5.43000001814");
    let upside_down = offer("1000.00", "184.162062", Some("0.184162"));
    assert_eq!(rate("0", &upside_down), "5.43000001814", "a rate that does not agree is not believed");
}

#[test]
fn with_a_spread_the_rate_is_computed_and_rounded_up() {
    assert_eq!(rate("1", &offer("543.00", "100", Some("5.43"))), "5.4843");
    assert_eq!(rate("0.3", &offer("1000.00", "184.162062", Some("5.43"))), "5.4462900182");
}

#[test]
fn a_quote_freezes_the_amounts_of_the_contract() {
    let offer = offer("1000.00", "184.162062", Some("5.43"));
    let frozen = freeze(&corridor(), &pricing("0", "0"), &wanted("1000.00"), &offer).unwrap();
    assert_eq!(frozen.fixed_side, FixedSide::Incoming);
    assert_eq!(frozen.fee_percentage.to_string(), "1.5");
    assert_eq!(frozen.quote.gross.to_string(), "184.162062");
    assert_eq!(frozen.quote.outgoing_amount.to_string(), "181.149631");
}

fn refused(wanted: &Wanted, offer: &ProviderQuote) -> QuotingFault {
    freeze(&corridor(), &pricing("0", "0"), wanted, offer).unwrap_err()
}

#[test]
fn a_quote_that_does_not_fit_is_refused() {
    let fault = refused(&wanted("1000.00"), &offer("999.99", "184", None));
    assert_eq!((fault, fault.is_providers()), (QuotingFault::SellsOtherwise, true));
    let fault = refused(&wanted("1000.00"), &offer("1000.00", "184.0000001", None));
    assert_eq!((fault, fault.is_providers()), (QuotingFault::NotTransferable, true));
    let fault = refused(&wanted("0.99"), &offer("0.99", "1", None));
    assert_eq!((fault, fault.is_providers()), (QuotingFault::OutsideLimits, false));
    let fault = refused(&wanted("100000000.01"), &offer("100000000.01", "1", None));
    assert_eq!(fault, QuotingFault::OutsideLimits);
    let fault = refused(&wanted("1.00"), &offer("1.00", "0", None));
    assert_eq!((fault, fault.is_providers()), (QuotingFault::Amounts(QuoteFault::NotPositive), false));
    let fault = refused(&wanted("1.00"), &offer("1.00", "0.2", None));
    assert_eq!(fault, QuotingFault::Amounts(QuoteFault::NotPositive), "the fees leave nothing");
}

#[test]
fn a_target_is_met_only_by_exactly_what_it_asks_for() {
    let target =
        |incoming: &str| Wanted { incoming_amount: decimal(incoming), outgoing_target: Some(decimal("100")) };
    let frozen = |incoming: &str, buy: &str| {
        let offer = offer(incoming, buy, Some("5.43"));
        freeze(&corridor(), &pricing("0", "0"), &target(incoming), &offer).unwrap()
    };
    let met = frozen("552.65", "101.777163");
    assert_eq!((met.fixed_side, met.quote.outgoing_amount), (FixedSide::Outgoing, decimal("100")));
    assert_eq!(met.quote.gross.to_string(), "101.776650");
    for (incoming, buy, outgoing) in
        [("552.66", "101.779005", "100.002320"), ("552.64", "101.775322", "99.998692")]
    {
        let missed = frozen(incoming, buy);
        assert_eq!(missed.fixed_side, FixedSide::Incoming, "{incoming}");
        assert_eq!(missed.conversion_rate.to_string(), "5.43", "the rate stays locked");
        assert_eq!(missed.quote.outgoing_amount.to_string(), outgoing);
    }
}

#[test]
fn equal_codes_have_rate_one_and_no_spread() {
    let same = between("EUR", "EUR", "1", "0.50");
    let frozen = freeze_unconverted(&same, &wanted("100.00")).unwrap();
    assert_eq!(frozen.conversion_rate, Decimal::ONE);
    assert_eq!(frozen.quote.outgoing_amount.to_string(), "98.50");
    let split = Split::unconverted(&frozen).unwrap();
    assert_eq!(
        (split.spread, split.commission, split.shortfall),
        (Decimal::ZERO, Decimal::ZERO, Decimal::ZERO)
    );
    assert_eq!((split.payable.to_string(), split.fees.to_string()), ("98.50".to_owned(), "1.50".to_owned()));
    let target = Wanted { incoming_amount: decimal("100.00"), outgoing_target: Some(decimal("98.5")) };
    assert_eq!(freeze_unconverted(&same, &target).unwrap().fixed_side, FixedSide::Outgoing);
    assert_eq!(freeze_unconverted(&same, &wanted("0.99")), Err(QuotingFault::OutsideLimits));
}

fn split(spread: &str, commission: &str, bought: &str) -> [String; 6] {
    let offer = offer("1000.00", "184.162062", Some("5.43"));
    let pricing = pricing(spread, commission);
    let frozen = freeze(&corridor(), &pricing, &wanted("1000.00"), &offer).unwrap();
    let split = Split::of(&frozen, &pricing, decimal(bought)).unwrap();
    [split.bought, split.shortfall, split.payable, split.fees, split.spread, split.commission]
        .map(|amount| amount.to_string())
}

#[test]
fn what_is_over_is_spread_and_the_partner_gets_its_part_rounded_down() {
    let exact = split("0", "50", "184.162062");
    assert_eq!(exact, ["184.162062", "0.000000", "181.149631", "3.012431", "0.000000", "0.000000"]);
    let odd = split("0", "50", "184.162065");
    assert_eq!(odd, ["184.162065", "0.000000", "181.149631", "3.012431", "0.000002", "0.000001"]);
    let all = split("0", "100", "184.162065");
    assert_eq!(all[4..], ["0.000000", "0.000003"]);
    let spread = split("1", "33.3", "184.162062");
    assert_eq!(spread[4..], ["1.216200", "0.607187"]);
}

#[test]
fn what_is_missing_is_the_houses() {
    let short = split("0", "50", "184.162000");
    assert_eq!(short, ["184.162000", "0.000062", "181.149631", "3.012431", "0.000000", "0.000000"]);
}

proptest! {
    #[test]
    fn a_frozen_quote_is_covered_and_its_split_adds_up(
        sold in 100_u64..10_000_000_000,
        buy in 1_000_000_u64..1_000_000_000_000,
        spread in 0_u32..500,
        commission in 0_u32..=100,
        bought in 1_u64..1_000_000_000_000,
    ) {
        let offer = ProviderQuote {
            sell_amount: Decimal::new(u128::from(sold), 2).unwrap(),
            buy_amount: Decimal::new(u128::from(buy), 6).unwrap(),
            ..offer("1", "1", None)
        };
        let percent = |value: u32, scale| Decimal::new(u128::from(value), scale).unwrap();
        let partner = Some("acme".to_owned());
        let commission_percent = Some(percent(commission, 0));
        let pricing = CorridorPricing::new(percent(spread, 2), partner, commission_percent).unwrap();
        let wanted = Wanted { incoming_amount: offer.sell_amount, outgoing_target: None };
        let Ok(frozen) = freeze(&corridor(), &pricing, &wanted, &offer) else {
            return Ok(());
        };
        prop_assert!(frozen.quote.gross <= offer.buy_amount, "a quote pays for what is promised");
        for bought in [offer.buy_amount, Decimal::new(u128::from(bought), 6).unwrap()] {
            let split = Split::of(&frozen, &pricing, bought).unwrap();
            let sum = |amounts: &[Decimal]| amounts.iter().map(Decimal::coefficient).sum::<u128>();
            prop_assert_eq!(
                sum(&[split.bought, split.shortfall]),
                sum(&[split.payable, split.fees, split.spread, split.commission])
            );
            prop_assert!(split.commission.coefficient() * 100 <= u128::from(commission)
                * sum(&[split.spread, split.commission]));
            prop_assert!(split.shortfall.is_zero() || split.spread.is_zero());
        }
    }
}
