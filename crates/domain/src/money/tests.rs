//! The limits of a decimal, the faults of a text, and the forms it has in JSON and in logs.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Asset, Decimal, DecimalFault, asset_decimals};

const LARGEST: &str = "99999999999999999999999999999999999999";
const SMALLEST: &str = "0.00000000000000000000000000000000000001";

fn decimal(text: &str) -> Decimal {
    text.parse().expect("a decimal")
}

#[test]
fn limits_hold_to_the_digit() {
    assert_eq!(decimal(LARGEST).to_string(), LARGEST);
    assert_eq!(decimal(SMALLEST).to_string(), SMALLEST);
    assert_eq!(SMALLEST.len(), Decimal::TEXT_BYTES_MAX);
    assert_eq!(Decimal::new(10_u128.pow(38), 0), None);
    assert_eq!(Decimal::new(u128::MAX, 0), None);
    assert_eq!(Decimal::new(0, Decimal::SCALE_MAX + 1), None);
}

#[test]
fn trailing_zeros_count_and_leading_zeros_do_not() {
    let padded = |zeros| format!("1.{}", "0".repeat(zeros));
    assert_eq!(decimal(&padded(37)).to_string(), padded(37));
    assert_eq!(padded(38).parse::<Decimal>(), Err(DecimalFault::TooManyDigits));
    assert_eq!(decimal("0.00").scale(), 2);
}

#[test]
fn texts_beyond_the_limits_are_named() {
    for (text, fault) in [
        (format!("{LARGEST}0"), DecimalFault::TooManyDigits),
        (format!("{LARGEST}.0"), DecimalFault::TooManyDigits),
        ("9".repeat(40), DecimalFault::TooManyDigits),
        (format!("{SMALLEST}0"), DecimalFault::TooLong),
        ("9".repeat(1 << 20), DecimalFault::TooLong),
    ] {
        assert_eq!(text.parse::<Decimal>(), Err(fault));
    }
}

#[test]
fn other_notations_are_refused() {
    for text in [
        "",
        " ",
        "1 ",
        " 1",
        "\n1",
        "+1",
        "-0",
        ".5",
        "5.",
        ".",
        "..",
        "1..2",
        "1.2.3",
        "00",
        "01.5",
        "1e3",
        "1E-3",
        "1,5",
        "1_000",
        "0x1",
        "NaN",
        "Infinity",
        "1.2\0",
        "\u{661}",
        "\u{ff11}",
        "\u{bd}",
        "1.\u{665}",
    ] {
        assert_eq!(text.parse::<Decimal>(), Err(DecimalFault::NotPlain), "{text:?}");
    }
}

#[test]
fn values_compare_whatever_their_scale() {
    assert_eq!(decimal("1.0"), decimal("1.00"));
    assert_eq!(decimal("0.000"), Decimal::ZERO);
    assert_eq!(decimal("1.000"), Decimal::ONE);
    assert!(decimal("9.99") < decimal("10"));
    assert!(decimal("0.1") > decimal("0.09"));
    assert!(decimal(LARGEST) > decimal(SMALLEST), "no common scale of the two fits in 128 bits");
    assert!(decimal("0.00").is_zero() && !decimal(SMALLEST).is_zero());
}

#[test]
fn values_hash_whatever_their_scale() {
    let hash = |text: &str| {
        let mut hasher = DefaultHasher::new();
        decimal(text).hash(&mut hasher);
        hasher.finish()
    };
    assert_eq!(hash("1.0"), hash("1.00"));
    assert_ne!(hash("1.0"), hash("10"));
}

#[test]
fn normalized_keeps_zeros_before_the_point() {
    for (text, normalized) in
        [("1.50", "1.5"), ("100", "100"), ("100.00", "100"), ("0.000", "0"), ("0.10", "0.1")]
    {
        assert_eq!(decimal(text).normalized().to_string(), normalized);
    }
}

#[test]
fn at_scale_refuses_what_does_not_fit() {
    assert_eq!(decimal(LARGEST).at_scale(1), None);
    assert_eq!(decimal(SMALLEST).at_scale(37), None);
    assert_eq!(Decimal::ZERO.at_scale(38).map(|zero| zero.to_string().len()), Some(40));
    assert_eq!(Decimal::ZERO.at_scale(39), None);
    assert_eq!(Decimal::ZERO.at_scale(u8::MAX), None);
}

#[test]
fn formatting_flags_change_no_digit() {
    let amount = decimal("181.149631");
    assert_eq!(format!("{amount:.2} {amount:+} {amount:?} {amount:#?}"), ["181.149631"; 4].join(" "));
    assert_eq!(format!("{:?}", Some(amount)), "Some(181.149631)");
}

#[test]
fn json_is_a_string_and_nothing_else() {
    assert_eq!(serde_json::to_string(&decimal("0.00000010")).expect("json"), "\"0.00000010\"");
    assert_eq!(serde_json::from_str::<Decimal>("\"1.50\"").expect("a decimal").to_string(), "1.50");
    assert_eq!(serde_json::from_str::<Decimal>(r#""\u0031.5""#).expect("a decimal"), decimal("1.5"));
    for json in ["1", "1.5", "null", "true", "[\"1\"]", "{}", "\"\"", "\"-1\"", "\"1e3\""] {
        assert!(serde_json::from_str::<Decimal>(json).is_err(), "{json}");
    }
}

#[test]
fn a_number_is_refused_with_the_form_that_is_expected() {
    let refused = serde_json::from_str::<Decimal>("1.5").expect_err("a number").to_string();
    assert!(refused.contains("expected a decimal in a string"), "{refused}");
}

/// As an amount is its number: a log, or a test that fails, says `181.149631 USDC`.
#[test]
fn an_asset_is_its_code_in_texts_and_in_logs() {
    let asset: Asset = "USDC".parse().expect("an asset");
    assert_eq!(asset.to_string(), "USDC");
    assert_eq!(format!("{:?}", Some(asset)), "Some(USDC)");
}

#[test]
fn an_asset_has_the_decimals_that_it_can_transfer() {
    for (codes, decimals) in [
        ("CLP JPY", 0),
        ("BRL EUR GBP IDR MXN USD", 2),
        ("KWD", 3),
        ("EURC USDC USDT", 6),
        ("BTC", 8),
        ("DAI ETH SHIB", 18),
    ] {
        for code in codes.split(' ') {
            assert_eq!(asset_decimals(code), Some(decimals), "{code}");
        }
    }
    for code in ["", "brl", "ZZZ"] {
        assert_eq!(asset_decimals(code), None, "{code:?}");
    }
}
