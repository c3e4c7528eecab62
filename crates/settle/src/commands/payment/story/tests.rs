//! What a payment's story says where nothing went as usual.

use serde_json::{Value, json};

use super::told;

/// A payment that the payer has back.
fn refunded(late: &Value) -> Value {
    json!({
        "payment_id": "p", "merchant_id": "m", "version": 9, "state": "refunded", "reason": null,
        "blocked": null, "late": late, "incoming_amount": "1000.00", "incoming_currency": "BRL",
        "timeline": [
            {"at": "2026-11-16T12:00:00Z", "from": "refunding", "to": "refunded", "by": "engine"},
        ],
    })
}

#[test]
fn what_moved_without_its_payment_is_told() {
    let usual = told(&refunded(&Value::Null));
    assert!(usual.contains("nothing: the payer has it back") && !usual.contains("astray"), "{usual}");
    let mut moved = refunded(&json!({"kind": "payout", "moved": true}));
    let lines = moved["timeline"].as_array_mut().unwrap();
    lines.push(json!({
        "at": "2026-11-16T13:00:00Z", "from": "refunded", "to": "refunded", "by": "engine",
        "postings": [
            {"account": "house_loss", "asset": "USDC", "amount": "-181.149631"},
            {"account": "astray", "asset": "USDC", "amount": "181.149631"},
        ],
    }));
    let moved = told(&moved);
    for words in [
        "Money     back at the payer; what a payout moved after all is astray",
        "13:00:00  an operation was made after the payment had gone on without it",
        "money is astray: the payout was made after the payment had gone on without it",
    ] {
        assert!(moved.contains(words), "{words}: {moved}");
    }
    assert!(!moved.contains("nothing: the payer has it back"), "{moved}");
    let mut open = refunded(&json!({"kind": "payout", "moved": false}));
    let may_move = told(&open);
    assert!(may_move.contains("a payout that the payment went on without may still be made"), "{may_move}");
    open["operations"] =
        json!([{"kind": "payout", "attempt": 1, "status": "unknown", "deviation": "paid less"}]);
    let otherwise = told(&open);
    assert!(
        otherwise.contains("a payout that the payment went on without was made, and not as asked"),
        "{otherwise}"
    );
}

#[test]
fn what_the_provider_is_at_again_is_waited_for() {
    let mut shown = refunded(&Value::Null);
    shown["state"] = json!("needs_review");
    shown["allowed_acts"] = json!([]);
    let told = told(&shown);
    assert!(
        told.contains("nothing: the provider is at it") && !told.contains("settle payment retry"),
        "{told}"
    );
}

#[test]
fn who_cancels_a_payment_is_not_called_a_provider_that_refused() {
    let mut shown = refunded(&Value::Null);
    let step = |by: &str| {
        json!([{"at": "2026-11-16T13:00:00Z", "from": "received", "to": "failed", "by": by,
                "reason": "conversion_refused"}])
    };
    shown["timeline"] = step("operator:1");
    assert!(told(&shown).contains("it was cancelled; we hold the money (operator:1)"), "{}", told(&shown));
    shown["timeline"] = step("engine");
    assert!(told(&shown).contains("it failed (conversion_refused)"), "{}", told(&shown));
}

#[test]
fn a_refund_that_ended_is_not_called_an_operation_that_was_made() {
    let mut shown = refunded(&Value::Null);
    shown["timeline"] = json!([
        {"at": "2026-11-16T13:00:00Z", "from": "refunding", "to": "needs_review", "by": "engine",
         "postings": [{"account": "inventory", "asset": "USDC", "amount": "1"}]},
        {"at": "2026-11-16T14:00:00Z", "from": "needs_review", "to": "converted", "by": "engine", "postings": []},
    ]);
    let told = told(&shown);
    assert!(!told.contains("was made after the payment had gone on"), "{told}");
    assert!(!told.contains("it turned out that the conversion was done"), "{told}");
}

#[test]
fn money_that_came_back_is_not_with_whoever_it_was_sent_to() {
    for (state, kind, who) in [("completed", "payout", "the merchant"), ("refunded", "refund", "the payer")] {
        let mut shown = refunded(&Value::Null);
        shown["state"] = json!(state);
        shown["operations"] =
            json!([{"kind": kind, "status": "succeeded", "provider": "desk", "operation_id": "o"}]);
        assert!(told(&shown).contains("nothing: "), "{state}");
        // Also when an operator said so, and its provider did not.
        shown["returned"] = json!(true);
        let told = told(&shown);
        assert!(told.contains(&format!("Money     back with us: {who} does not have it")), "{told}");
        assert!(told.contains("came back: find out why") && !told.contains("nothing: "), "{told}");
    }
}

#[test]
fn what_was_done_otherwise_is_told_and_not_called_unknown() {
    let said = "asked to pay 181.149631 USDC to wallet, the provider says that it paid 163.034667 USDC";
    let mut short = refunded(&Value::Null);
    short["state"] = json!("needs_review");
    short["reason"] = json!("payout_outcome_unknown");
    short["allowed_acts"] = json!(["resolve_paid", "resolve_not_paid"]);
    short["operations"] = json!([{"kind": "payout", "attempt": 1, "status": "unknown", "deviation": said}]);
    short["timeline"] = json!([{
        "at": "2026-11-16T13:00:00Z", "from": "paying_out", "to": "needs_review", "by": "engine",
        "reason": "payout_outcome_unknown", "note": said,
    }]);
    let story = told(&short);
    for words in [
        "Money     not where it should be",
        &format!("a person must decide, nothing more is sent: {said}"),
        &format!("operation -: {said}"),
        "agree with the provider how it is made good",
    ] {
        assert!(story.contains(words), "{words}: {story}");
    }
    assert!(!story.contains("nobody knows") && !story.contains("not known"), "{story}");
    short["operations"][0]["deviation"] = Value::Null;
    short["timeline"][0]["note"] = Value::Null;
    let unknown = told(&short);
    assert!(
        unknown.contains("nobody knows what became of the payout") && unknown.contains("not known"),
        "{unknown}"
    );
}

#[test]
fn a_late_operation_is_decided_by_its_own_outcomes() {
    for (kind, done, not_done) in [
        ("conversion", "converted", "not_converted"),
        ("payout", "paid", "not_paid"),
        ("refund", "refunded", "not_refunded"),
    ] {
        let mut halted = refunded(&json!({"kind": kind, "moved": true}));
        halted["state"] = json!("needs_review");
        halted["reason"] = json!("payout_outcome_unknown");
        let told = told(&halted);
        let words = format!("--outcome {done} if it is this payment's own, or {not_done} if it came back");
        assert!(told.contains(&words) && !told.contains("not known:"), "{told}");
    }
}

fn reviewed(from: &str, acts: &[&str]) -> String {
    told(&json!({
        "state": "needs_review", "reason": "payout_outcome_unknown", "version": 7, "allowed_acts": acts,
        "timeline": [{ "from": from, "to": "needs_review", "reason": "payout_outcome_unknown", "by": "engine" }],
    }))
}

#[test]
fn only_what_the_state_allows_is_offered() {
    let payout = reviewed("paying_out", &["resolve_paid", "resolve_not_paid"]);
    assert!(payout.contains("--evidence WHY --outcome paid\n  or --outcome not_paid"), "{payout}");
    assert!(!payout.contains("refund"), "{payout}");
    let halted = reviewed("received", &["retry", "refund", "cancel"]);
    assert!(halted.contains("settle payment retry") && !halted.contains("resolve"), "{halted}");
    let conversion = reviewed("converting", &["resolve_converted", "resolve_not_converted"]);
    assert!(conversion.contains("--outcome converted --amount BOUGHT\n  or --outcome not_converted"));
}

#[test]
fn who_knows_what_the_engine_still_looks_up_may_say_so() {
    let mut shown = json!({
        "state": "paying_out", "reason": "payout_outcome_unknown", "version": 5,
        "allowed_acts": ["resolve_paid", "resolve_not_paid"],
    });
    let known = told(&shown);
    assert!(
        known.contains("the engine looks it up until the provider tells. If you know it already"),
        "{known}"
    );
    assert!(known.contains("--version 5 --evidence WHY --outcome paid\n  or --outcome not_paid"), "{known}");
    shown["allowed_acts"] = json!([]);
    assert!(!told(&shown).contains("resolve"));
}

#[test]
fn a_lost_refund_is_told_as_one() {
    let refund = reviewed("refunding", &["resolve_refunded", "resolve_not_refunded"]);
    for words in [
        "because payout_outcome_unknown (of the refund)",
        "nobody knows what became of the refund (payout_outcome_unknown)",
        "ask the provider what became of the refund",
    ] {
        assert!(refund.contains(words), "{words}: {refund}");
    }
}

#[test]
fn a_merchant_without_a_webhook_is_not_called_notified() {
    for from in ["paying_out", "needs_review"] {
        let told = told(&json!({ "state": "completed", "timeline": [{ "from": from, "to": "completed" }] }));
        assert!(told.contains("the settlement was recorded, with a notification if"), "{told}");
    }
}
