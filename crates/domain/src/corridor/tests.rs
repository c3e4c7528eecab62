//! Every bound of a corridor, at its edge.

use super::*;

fn decimal(text: &str) -> Decimal {
    text.parse().expect("a decimal")
}

fn terms() -> CorridorTerms {
    CorridorTerms {
        incoming: "BRL".parse().unwrap(),
        outgoing: "USDC".parse().unwrap(),
        fee_percentage: decimal("1.50"),
        fee_fixed: decimal("0.25"),
        minimum: Some(decimal("10")),
        maximum: Some(decimal("50000.0")),
        provider: "sandbox".parse().unwrap(),
        alert_after: ALERT_AFTER,
    }
}

fn fields(terms: CorridorTerms) -> Vec<&'static str> {
    Corridor::new(terms)
        .map_or_else(|faults| faults.iter().map(|fault| fault.field).collect(), |_| Vec::new())
}

#[test]
fn terms_get_the_scale_of_their_asset() {
    let corridor = Corridor::new(terms()).unwrap();
    let CorridorTerms { fee_percentage, fee_fixed, minimum, maximum, .. } = corridor.terms();
    assert_eq!(fee_percentage.to_string(), "1.5");
    assert_eq!(fee_fixed.to_string(), "0.250000");
    assert_eq!(minimum.unwrap().to_string(), "10.00");
    assert_eq!(maximum.unwrap().to_string(), "50000.00");
}

#[test]
fn each_bad_field_is_named() {
    assert_eq!(fields(terms()), [""; 0]);
    assert_eq!(fields(CorridorTerms { fee_percentage: decimal("99.99"), ..terms() }), [""; 0]);
    assert_eq!(fields(CorridorTerms { fee_percentage: decimal("99.991"), ..terms() }), ["fee_percentage"]);
    assert_eq!(fields(CorridorTerms { fee_fixed: decimal("0.0000001"), ..terms() }), ["fee_fixed"]);
    assert_eq!(fields(CorridorTerms { minimum: Some(decimal("0.001")), ..terms() }), ["minimum"]);
    assert_eq!(fields(CorridorTerms { maximum: Some(decimal("0.001")), ..terms() }), ["maximum"]);
    assert_eq!(fields(CorridorTerms { maximum: Some(decimal("9.99")), ..terms() }), ["maximum"]);
    assert_eq!(fields(CorridorTerms { maximum: Some(decimal("10.00")), ..terms() }), [""; 0]);
    assert_eq!(fields(CorridorTerms { minimum: None, maximum: Some(decimal("0")), ..terms() }), ["maximum"]);
    assert_eq!(fields(CorridorTerms { alert_after: Duration::ZERO, ..terms() }), ["alert_after"]);
    assert_eq!(fields(CorridorTerms { alert_after: ALERT_AFTER_MAX, ..terms() }), [""; 0]);
    let beyond = ALERT_AFTER_MAX + Duration::from_secs(1);
    assert_eq!(fields(CorridorTerms { alert_after: beyond, ..terms() }), ["alert_after"]);
}

#[test]
fn all_problems_are_found_at_once() {
    let bad = CorridorTerms {
        fee_percentage: decimal("100"),
        fee_fixed: decimal("0.0000001"),
        minimum: Some(decimal("0.001")),
        alert_after: Duration::ZERO,
        ..terms()
    };
    assert_eq!(fields(bad), ["fee_percentage", "fee_fixed", "minimum", "alert_after"]);
}

#[test]
fn the_smallest_and_the_largest_amount_are_admitted() {
    let corridor = Corridor::new(terms()).unwrap();
    for (amount, expected) in
        [("9.99", false), ("10.00", true), ("10", true), ("50000.00", true), ("50000.01", false)]
    {
        assert_eq!(corridor.admits(decimal(amount)), expected, "{amount}");
    }
    let unbounded = Corridor::new(CorridorTerms { minimum: None, maximum: None, ..terms() }).unwrap();
    assert!(unbounded.admits(decimal("0.01")) && unbounded.admits(decimal("99999999999.99")));
}

#[test]
fn only_equal_codes_skip_the_conversion() {
    let between = |incoming: &str, outgoing: &str| {
        let assets = CorridorTerms {
            incoming: incoming.parse().unwrap(),
            outgoing: outgoing.parse().unwrap(),
            ..terms()
        };
        Corridor::new(assets).unwrap().skips_conversion()
    };
    assert!(between("EUR", "EUR"));
    assert!(!between("EUR", "EURC"));
}

#[test]
fn versions_count_from_one() {
    assert_eq!(CorridorVersion::FIRST.next(), CorridorVersion(2));
}
