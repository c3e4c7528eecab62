//! The postings of every movement, and that no postings can be built that do not balance.

use super::*;
use crate::operation::OperationKind;
use crate::quote::Quote;
use crate::quoting::Split;

fn decimal(text: &str) -> Decimal {
    text.parse().expect("a decimal")
}

fn asset(code: &str) -> Asset {
    code.parse().expect("an asset")
}

fn quote() -> Quote {
    Quote {
        incoming_amount: decimal("1000.00"),
        gross: decimal("182.000000"),
        fee_percentage_amount: decimal("2.750000"),
        fee_fixed: decimal("0.250000"),
        outgoing_amount: decimal("179.000000"),
    }
}

fn split() -> Split {
    Split {
        bought: decimal("184.000000"),
        shortfall: decimal("0.000000"),
        payable: decimal("179.000000"),
        fees: decimal("3.000000"),
        spread: decimal("1.500000"),
        commission: decimal("0.500000"),
    }
}

fn lines_with(movement: Movement, split: &Split) -> Vec<String> {
    let quote = quote();
    let books = Books {
        incoming: asset("BRL"),
        incoming_amount: decimal("1000.00"),
        outgoing: asset("USDC"),
        quote: Some(&quote),
        split: Some(split),
        late_bought: Some(decimal("183")),
    };
    let postings = postings(movement, &books).expect("amounts for every movement");
    postings.lines().iter().map(|line| format!("{} {} {}", line.account, line.amount, line.asset)).collect()
}

fn lines(movement: Movement) -> Vec<String> {
    lines_with(movement, &split())
}

#[test]
fn the_way_of_a_payment_posts_as_the_table_says() {
    assert_eq!(lines(Movement::None), [""; 0]);
    assert_eq!(lines(Movement::Receive), ["payer -1000.00 BRL", "client_funds 1000.00 BRL"]);
    assert_eq!(lines(Movement::BeginConversion), ["client_funds -1000.00 BRL", "converting 1000.00 BRL"]);
    assert_eq!(
        lines(Movement::Convert),
        [
            "converting -1000.00 BRL",
            "exchange 1000.00 BRL",
            "exchange -184.000000 USDC",
            "payable 179.000000 USDC",
            "fees 3.000000 USDC",
            "spread 1.500000 USDC",
            "commission 0.500000 USDC",
        ]
    );
    assert_eq!(lines(Movement::BeginPayout), ["payable -179.000000 USDC", "paying_out 179.000000 USDC"]);
    assert_eq!(lines(Movement::Complete), ["paying_out -179.000000 USDC", "paid 179.000000 USDC"]);
    let returned = lines(Movement::Return(OperationKind::Payout));
    assert_eq!(returned, ["paid -179.000000 USDC", "returned 179.000000 USDC"]);
    let returned = lines(Movement::Return(OperationKind::Refund));
    assert_eq!(returned, ["refunded -1000.00 BRL", "returned 1000.00 BRL"]);
}

#[test]
fn what_is_abandoned_goes_the_same_way_back() {
    for (begun, abandoned) in [
        (Movement::BeginConversion, Movement::AbandonConversion),
        (Movement::BeginPayout, Movement::AbandonPayout),
        (Movement::BeginRefund(Held::Incoming), Movement::AbandonRefund(Held::Incoming)),
        (Movement::BeginRefund(Held::Outgoing), Movement::AbandonRefund(Held::Outgoing)),
        (Movement::MoveLate(OperationKind::Payout), Movement::ReturnLate(OperationKind::Payout)),
        (Movement::MoveLate(OperationKind::Refund), Movement::ReturnLate(OperationKind::Refund)),
    ] {
        let turned: Vec<String> = lines(begun)
            .iter()
            .map(|line| match line.split_once(" -") {
                Some((account, rest)) => format!("{account} {rest}"),
                None => line.replacen(' ', " -", 1),
            })
            .collect();
        assert_eq!(lines(abandoned), turned);
    }
}

#[test]
fn a_refund_takes_the_clients_money_before_a_conversion_and_the_houses_after_one() {
    let before = Held::Incoming;
    assert_eq!(lines(Movement::BeginRefund(before)), ["client_funds -1000.00 BRL", "refunding 1000.00 BRL"]);
    assert_eq!(lines(Movement::Refund(before)), ["refunding -1000.00 BRL", "refunded 1000.00 BRL"]);
    let after = Held::Outgoing;
    assert_eq!(lines(Movement::BeginRefund(after)), ["refunding 1000.00 BRL", "inventory -1000.00 BRL"]);
    assert_eq!(
        lines(Movement::Refund(after)),
        [
            "payable -179.000000 USDC",
            "fees -3.000000 USDC",
            "spread -1.500000 USDC",
            "commission -0.500000 USDC",
            "refunding -1000.00 BRL",
            "refunded 1000.00 BRL",
            "inventory 184.000000 USDC",
        ]
    );
}

#[test]
fn a_shortfall_is_the_houses_loss_and_the_frozen_amounts_stand() {
    let short = Split {
        bought: decimal("180.000000"),
        shortfall: decimal("2.000000"),
        spread: decimal("0.000000"),
        commission: decimal("0.000000"),
        ..split()
    };
    assert_eq!(
        lines_with(Movement::Convert, &short),
        [
            "converting -1000.00 BRL",
            "exchange 1000.00 BRL",
            "exchange -180.000000 USDC",
            "payable 179.000000 USDC",
            "fees 3.000000 USDC",
            "house_loss -2.000000 USDC",
        ]
    );
    // A refund gives the house what was really bought, and nothing is lost any more.
    assert_eq!(
        lines_with(Movement::Refund(Held::Outgoing), &short),
        [
            "payable -179.000000 USDC",
            "fees -3.000000 USDC",
            "refunding -1000.00 BRL",
            "refunded 1000.00 BRL",
            "inventory 180.000000 USDC",
            "house_loss 2.000000 USDC",
        ]
    );
}

#[test]
fn what_moves_late_is_the_houses_until_a_person_says_otherwise() {
    let conversion = OperationKind::Conversion;
    assert_eq!(
        lines(Movement::MoveLate(conversion)),
        [
            "exchange 1000.00 BRL",
            "exchange -183.000000 USDC",
            "inventory -1000.00 BRL",
            "inventory 183.000000 USDC"
        ]
    );
    let payout = OperationKind::Payout;
    assert_eq!(lines(Movement::MoveLate(payout)), ["house_loss -179.000000 USDC", "astray 179.000000 USDC"]);
    let refund = OperationKind::Refund;
    assert_eq!(lines(Movement::MoveLate(refund)), ["house_loss -1000.00 BRL", "astray 1000.00 BRL"]);
    let adopted = |kind, moved, held| lines(Movement::Adopt(Late { kind, moved }, held));
    assert_eq!(
        adopted(payout, true, Held::Outgoing),
        [
            "payable -179.000000 USDC",
            "paid 179.000000 USDC",
            "house_loss 179.000000 USDC",
            "astray -179.000000 USDC"
        ]
    );
    let unmoved = adopted(payout, false, Held::Outgoing);
    assert_eq!(unmoved, ["payable -179.000000 USDC", "paid 179.000000 USDC"]);
    let bought: Vec<String> = adopted(conversion, true, Held::Incoming);
    assert_eq!(bought[0], "client_funds -1000.00 BRL");
    assert_eq!(bought[5..], ["inventory 1000.00 BRL", "inventory -184.000000 USDC"]);
    assert_eq!(adopted(conversion, true, Held::Outgoing), [""; 0]);
    let back = adopted(refund, true, Held::Incoming);
    assert_eq!(
        back,
        [
            "client_funds -1000.00 BRL",
            "refunded 1000.00 BRL",
            "house_loss 1000.00 BRL",
            "astray -1000.00 BRL"
        ]
    );
}

#[test]
fn equal_codes_divide_what_came_in() {
    let quote = Quote {
        incoming_amount: decimal("100.00"),
        gross: decimal("100.00"),
        fee_percentage_amount: decimal("1.00"),
        fee_fixed: decimal("0.50"),
        outgoing_amount: decimal("98.50"),
    };
    let split = Split {
        bought: decimal("100.00"),
        shortfall: decimal("0.00"),
        payable: decimal("98.50"),
        fees: decimal("1.50"),
        spread: decimal("0.00"),
        commission: decimal("0.00"),
    };
    let books = Books {
        incoming: asset("EUR"),
        incoming_amount: decimal("100.00"),
        outgoing: asset("EUR"),
        quote: Some(&quote),
        split: Some(&split),
        late_bought: None,
    };
    let postings = postings(Movement::SkipConversion, &books).unwrap();
    let json = serde_json::to_string(&postings).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"[{"account":"client_funds","asset":"EUR","amount":"-100.00"},"#,
            r#"{"account":"payable","asset":"EUR","amount":"98.50"},"#,
            r#"{"account":"fees","asset":"EUR","amount":"1.50"}]"#
        )
    );
    assert_eq!(serde_json::from_str::<Postings>(&json).unwrap(), postings);
}

#[test]
fn what_was_paid_beyond_what_was_owed_is_lost_and_less_is_refused() {
    let quote = quote();
    let books = Books {
        incoming: asset("BRL"),
        incoming_amount: decimal("1000.00"),
        outgoing: asset("USDC"),
        quote: Some(&quote),
        split: None,
        late_bought: None,
    };
    let beyond = |kind, moved| excess(kind, decimal(moved), &books).map(|postings| postings.lines().len());
    assert_eq!(beyond(OperationKind::Payout, "179"), Ok(0));
    assert_eq!(
        beyond(OperationKind::Payout, "178.999999"),
        Err(PostingFault::TooLittle(decimal("179.000000")))
    );
    assert_eq!(beyond(OperationKind::Refund, "999.99"), Err(PostingFault::TooLittle(decimal("1000.00"))));
    assert_eq!(beyond(OperationKind::Conversion, "1"), Err(PostingFault::AmountsMissing));
    assert_eq!(beyond(OperationKind::Payout, "179.0000001"), Err(PostingFault::OutOfRange(asset("USDC"))));
    let more = excess(OperationKind::Refund, decimal("1000.5"), &books).unwrap();
    let lines: Vec<String> =
        more.lines().iter().map(|line| format!("{} {}", line.account, line.amount)).collect();
    assert_eq!(lines, ["house_loss -0.50", "astray 0.50"]);
}

#[test]
fn movements_without_their_amounts_are_refused() {
    let books = Books {
        incoming: asset("BRL"),
        incoming_amount: decimal("1000.00"),
        outgoing: asset("USDC"),
        quote: None,
        split: None,
        late_bought: None,
    };
    for movement in [
        Movement::Convert,
        Movement::SkipConversion,
        Movement::BeginPayout,
        Movement::Complete,
        Movement::Refund(Held::Outgoing),
        Movement::MoveLate(OperationKind::Conversion),
        Movement::Return(OperationKind::Conversion),
        Movement::ReturnLate(OperationKind::Conversion),
    ] {
        assert_eq!(postings(movement, &books), Err(PostingFault::AmountsMissing), "{movement:?}");
    }
}

#[test]
fn stored_postings_that_do_not_balance_are_refused() {
    let line = |account: &str, asset: &str, amount: &str| {
        format!(r#"{{"account":"{account}","asset":"{asset}","amount":"{amount}"}}"#)
    };
    let read = |lines: &[String]| serde_json::from_str::<Postings>(&format!("[{}]", lines.join(",")));
    assert!(read(&[line("payer", "BRL", "-1.00"), line("paid", "BRL", "1.00")]).is_ok());
    for bad in [
        vec![line("payer", "BRL", "-1.00")],
        vec![line("payer", "BRL", "-1.00"), line("paid", "BRL", "1.01")],
        vec![line("payer", "BRL", "-1.00"), line("paid", "USD", "1.00")],
        vec![line("payer", "BRL", "-1.001"), line("paid", "BRL", "1.001")],
        vec![line("wallet", "BRL", "-1.00"), line("paid", "BRL", "1.00")],
        vec![line("payer", "XYZ", "-1.00"), line("paid", "XYZ", "1.00")],
    ] {
        assert!(read(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_sum_with_too_many_digits_is_refused() {
    let brl = asset("BRL");
    let most = decimal(&format!("{}.99", "9".repeat(36)));
    let once = Postings::none().and(brl, Account::Payer, Account::Paid, most).unwrap();
    assert_eq!(
        once.clone().and(brl, Account::Payer, Account::Paid, most),
        Err(PostingFault::OutOfRange(brl))
    );
    assert_eq!(once.and(brl, Account::Paid, Account::Payer, most), Ok(Postings::none()), "zero lines go");
    let too_fine = Postings::none().and(brl, Account::Payer, Account::Paid, decimal("0.001"));
    assert_eq!(too_fine, Err(PostingFault::OutOfRange(brl)));
}
