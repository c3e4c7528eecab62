//! `settle corridor`, `settle payment` and `settle provider`: the engine as an operator meets it, with the
//! service and the sandbox as two processes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settle_domain::seams::Clock;
use settle_domain::signature;
use settle_testing::binary::{Ran, Settle};
use settle_testing::serving::{Serving, answer, get, send};
use settle_wiring::system::SystemClock;

use crate::BINARY;
use crate::sandbox::Running;

mod failed;

on_both_stores! {
    a_payment_is_quoted_converted_paid_out_and_settled,
    a_payout_for_less_is_found_explained_and_resolved,
    a_payout_that_was_refused_and_made_is_not_made_again,
    what_cannot_be_undone_needs_two_people_if_the_settings_say_so,
    another_destination_always_needs_two_people,
    a_pause_holds_after_a_restart,
    a_corridor_with_an_unknown_provider_says_so,
    who_has_another_secret_than_the_provider_is_told_so,
    a_hint_makes_the_engine_look_if_it_is_signed_and_is_not_believed,
    many_failed_payments_are_retried_at_once,
    wrong_input_is_named,
    a_process_may_settle_alone,
}

/// How long a payment may take to get somewhere.
const PATIENCE: Duration = Duration::from_mins(1);

/// The service with a sandbox, a merchant with a corridor, and an operator.
struct Shop<'a> {
    settle: &'a mut Settle,
    sandbox: Running,
    serving: Option<Serving>,
    api: SocketAddr,
    operator: SocketAddr,
    merchant: String,
    token: String,
}

impl<'a> Shop<'a> {
    fn open(settle: &'a mut Settle) -> Shop<'a> {
        let sandbox = Running::start(settle, &["--secret", "hush"]);
        settle.set("SETTLE_PROVIDERS__SANDBOX__URL", &format!("http://{}", sandbox.address));
        settle.set("SETTLE_PROVIDERS__SANDBOX__SECRET", "hush");
        let merchant = settle.merchant();
        let terms = ["--fee-percentage", "1.5", "--fee-fixed", "0.25", "--provider", "sandbox"];
        let set = [&["corridor", "set", &merchant, "BRL", "USDC"][..], &terms].concat();
        assert!(settle.run(&set).ok().contains("version 1"));
        let token = settle.run(&["operator", "create", "alice", "-q"]).ok().trim().to_owned();
        let (serving, api, operator) = Serving::ready(settle);
        Shop { settle, sandbox, serving: Some(serving), api, operator, merchant, token }.at_its_desk()
    }

    /// Commands call the listener of the running service.
    fn at_its_desk(self) -> Shop<'a> {
        self.settle.set("SETTLE_OPERATOR_URL", &format!("http://{}", self.operator));
        self.settle.set("SETTLE_OPERATOR_TOKEN", &self.token);
        self
    }

    fn restart(mut self) -> Shop<'a> {
        self.serving.take().expect("it runs").stop();
        let (serving, api, operator) = Serving::ready(self.settle);
        Shop { serving: Some(serving), api, operator, ..self }.at_its_desk()
    }

    fn create(&self, reference: &str, destination: &str) -> String {
        let arguments =
            ["payment", "create", &self.merchant, "--reference", reference, "--amount", "1000.00"];
        let rest = ["--from", "BRL", "--to", "USDC", "--destination", destination, "-q"];
        self.settle.run(&[&arguments[..], &rest].concat()).ok().trim().to_owned()
    }

    fn show(&self, payment: &str) -> Value {
        let path = format!("/operator/v1/merchants/{}/payments/{payment}", self.merchant);
        get(self.operator, &path, &self.token).json()
    }

    /// Waits until the payment is in a state.
    #[track_caller]
    fn wait_for(&self, payment: &str, state: &str) -> Value {
        let start = Instant::now();
        loop {
            let shown = self.show(payment);
            if shown["state"] == state {
                return shown;
            }
            assert!(start.elapsed() < PATIENCE, "not {state}: {shown:#}");
        }
    }

    /// Does something with a payment as it is now.
    fn act(&self, payment: &str, verb: &str, rest: &[&str]) -> Ran {
        let version = self.show(payment)["version"].to_string();
        let own = ["payment", verb, &self.merchant, payment, "--version", &version, "--evidence", "I asked"];
        self.settle.run(&[&own[..], rest].concat())
    }

    fn told(&self, payment: &str) -> String {
        self.settle.run(&["payment", "show", &self.merchant, payment]).ok().to_owned()
    }

    /// What the sandbox has really done, by kind: the only witness.
    fn executed(&self, kind: &str) -> u64 {
        let executions = self.sandbox.executions();
        let executions = executions["executions"].as_array().expect("a list");
        let of_kind = executions.iter().filter(|execution| execution["kind"] == kind);
        of_kind.map(|execution| execution["times"].as_u64().expect("a number")).sum()
    }
}

fn a_payment_is_quoted_converted_paid_out_and_settled(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let payment = shop.create("pix-1", "wallet-7");
    let done = shop.wait_for(&payment, "completed");
    assert_eq!((done["version"].clone(), done["reason"].clone()), (json!(4), Value::Null), "{done:#}");
    assert_eq!((shop.executed("conversion"), shop.executed("payout")), (1, 1));
    let quote = &done["quote"];
    assert_eq!(
        (&quote["sell_amount"], &quote["buy_amount"]),
        (&json!("1000.00"), &done["pricing"]["bought"])
    );
    let field = |name: &str| quote[name].as_str().unwrap_or_else(|| panic!("{name}: {done:#}"));
    let (id, rate, until) = (field("quote_id"), field("rate"), field("expires_at"));
    let told = shop.told(&payment);
    for words in [
        &format!("sandbox's quote {id}, {} USDC for 1000.00 BRL (rate {rate})", field("buy_amount")),
        &format!("bound until {until}."),
        "State     completed",
        "Money     with the merchant",
        "a fee of 1.5 %",
        "1000.00 BRL came in (alice, operator:",
        "the provider's quote was taken",
        "the payout was made; the settlement was recorded",
        "payout 1: succeeded by sandbox",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let (_, key) = shop.settle.key(&shop.merchant);
    let settlements = get(shop.api, "/v1/settlements", &key).json();
    let settlement = &settlements["settlements"][0];
    assert_eq!((&settlements["total"], &settlement["settlement_id"]), (&json!(1), &json!(payment)));
    for field in ["outgoing_amount", "conversion_rate", "fee_percentage_amount", "fee_fixed", "fixed_side"] {
        assert_eq!(settlement[field], done[field], "{field}");
    }
    // The same again changes nothing; other content under the same reference is refused.
    assert_eq!(shop.create("pix-1", "wallet-7"), payment);
    let other = ["payment", "create", &shop.merchant, "--reference", "pix-1", "--amount", "999.00"];
    let rest = ["--from", "BRL", "--to", "USDC", "--destination", "wallet-7"];
    assert!(shop.settle.run(&[&other[..], &rest].concat()).failed().contains("(conflict, 409)"));
    assert_eq!(shop.executed("payout"), 1);
}

fn a_payout_for_less_is_found_explained_and_resolved(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let payment = shop.create("pix-1", "sandbox:short");
    shop.wait_for(&payment, "needs_review");
    let found = shop.settle.run(&["payment", "list", "--state", "needs_review"]);
    assert!(found.ok().contains(&payment) && found.ok().contains("payout_outcome_unknown"), "{found:?}");
    let told = shop.told(&payment);
    for words in [
        "Money     not where it should be: nothing more is sent until a person decides",
        "not what was asked was done (payout_outcome_unknown); a person must decide",
        ": asked to pay 181.149631 USDC to sandbox:short, the provider says that it paid 163.034667 USDC",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert!(!told.contains("nobody knows"), "{told}");
    assert!(told.contains(&format!("settle payment resolve {} {payment}", shop.merchant)), "{told}");
    assert!(
        told.contains("--outcome paid\n  or, once")
            && told.contains("--outcome not_paid")
            && !told.contains("refunded"),
        "{told}"
    );
    let refused = shop.act(&payment, "retry", &[]);
    assert!(refused.failed().contains("payout_outcome_unknown, 409"), "{refused:?}");
    let resolved = shop.act(&payment, "resolve", &["--outcome", "paid"]);
    assert!(
        resolved.ok().contains("State     completed") && resolved.ok().contains(": I asked"),
        "{resolved:?}"
    );
    assert_eq!(shop.executed("payout"), 1);
    let again = shop.settle.run(&[
        "payment",
        "resolve",
        &shop.merchant,
        &payment,
        "--version",
        "1",
        "--evidence",
        "x",
        "--outcome",
        "paid",
    ]);
    assert!(again.failed().contains("the payment has changed since"), "{again:?}");
}

fn a_payout_that_was_refused_and_made_is_not_made_again(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let payment = shop.create("pix-1", "sandbox:flip:1s");
    shop.wait_for(&payment, "failed");
    let start = Instant::now();
    while shop.executed("payout") == 0 {
        assert!(start.elapsed() < PATIENCE);
    }
    let refused = shop.act(&payment, "retry", &[]);
    assert!(refused.failed().contains("payout_outcome_unknown, 409"), "{refused:?}");
    let shown = shop.show(&payment);
    assert_eq!(shown["late"], json!({ "kind": "payout", "moved": true }), "{shown:#}");
    let told = shop.told(&payment);
    for words in [
        "what a payout moved after all is astray",
        "an operation was made after the payment had gone on without it (payout_outcome_unknown)",
        "--outcome paid if it is this payment's own, or not_paid if it came back",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let resolved = shop.act(&payment, "resolve", &["--outcome", "paid"]);
    assert!(resolved.ok().contains("State     completed"), "{resolved:?}");
    assert_eq!((shop.executed("payout"), shop.executed("refund")), (1, 0));
}

/// The refund of a payment that the provider refused.
fn what_cannot_be_undone_needs_two_people_if_the_settings_say_so(settle: &mut Settle) {
    settle.set("SETTLE_ENGINE__TWO_PEOPLE", "true");
    let mut shop = Shop::open(settle);
    let bob = shop.settle.run(&["operator", "create", "bob", "-q"]).ok().trim().to_owned();
    let payment = shop.create("pix-1", "sandbox:refuse");
    shop.wait_for(&payment, "failed");
    let proposed = shop.act(&payment, "refund", &["--json"]).json();
    let proposal = proposed["proposal_id"].as_str().expect("a proposal").to_owned();
    assert_eq!((&proposed["act"], &shop.show(&payment)["state"]), (&json!("refund"), &json!("failed")));
    let listed = shop.settle.run(&["payment", "proposals"]);
    assert!(listed.ok().contains(&proposal) && listed.ok().contains("alice, operator:"), "{listed:?}");
    let own = shop.settle.run(&["payment", "approve", &proposal]);
    assert_eq!((own.code, own.stdout.as_str()), (Some(1), ""), "{own:?}");
    for words in ["refund: I asked", "your own proposal", "forbidden, 403"] {
        assert!(own.stderr.contains(words), "{words}: {own:?}");
    }
    shop.token.clone_from(&bob);
    let shop = shop.at_its_desk();
    shop.settle.run(&["payment", "approve", &proposal]).ok();
    let done = shop.wait_for(&payment, "refunded");
    assert!(done.to_string().contains("(proposed by operator:"), "{done:#}");
    assert_eq!((shop.executed("payout"), shop.executed("refund")), (0, 1));
    let again = shop.settle.run(&["payment", "approve", &proposal]);
    assert!(again.failed().contains("(conflict, 409)"), "{again:?}");
    assert!(shop.settle.run(&["payment", "proposals"]).ok().contains("Nothing waits"));
    // What can be undone needs one.
    let other = shop.create("pix-2", "sandbox:refuse");
    shop.wait_for(&other, "failed");
    assert!(shop.act(&other, "retry", &[]).ok().contains("it starts again") || shop.executed("payout") == 0);
}

fn another_destination_always_needs_two_people(settle: &mut Settle) {
    let mut shop = Shop::open(settle);
    let payment = shop.create("pix-1", "sandbox:refuse");
    shop.wait_for(&payment, "failed");
    let proposed = shop.act(&payment, "retry", &["--destination", "wallet-8", "--json"]).json();
    let proposal = proposed["proposal_id"].as_str().expect("a proposal").to_owned();
    assert_eq!(
        (&proposed["destination_reference"], &proposed["evidence"]),
        (&json!("wallet-8"), &json!("I asked"))
    );
    let listed = shop.settle.run(&["payment", "proposals"]);
    assert!(listed.ok().contains("retry to wallet-8: I asked"), "{listed:?}");
    let bob = shop.settle.run(&["operator", "create", "bob", "-q"]);
    bob.ok().trim().clone_into(&mut shop.token);
    let shop = shop.at_its_desk();
    let approved = shop.settle.run(&["payment", "approve", &proposal]);
    assert!(approved.ok().contains("(to wallet-8 instead of sandbox:refuse)"), "{approved:?}");
    assert!(approved.stderr.contains("at version") && approved.stderr.contains("retry to wallet-8: I asked"));
    let done = shop.wait_for(&payment, "completed");
    assert_eq!(done["destination_reference"], "wallet-8");
    assert_eq!((shop.executed("conversion"), shop.executed("payout")), (1, 1), "what was bought is paid out");
}

fn a_pause_holds_after_a_restart(settle: &mut Settle) {
    settle.set("SETTLE_ENGINE__RETRY_FIRST", "100ms");
    let shop = Shop::open(settle);
    let paused = shop.settle.run(&["provider", "pause", "sandbox", "--json"]).json();
    assert_eq!(paused["paused"], true, "{paused}");
    let payment = shop.create("pix-1", "wallet-7");
    let is_blocked = |shown: &Value| shown["blocked"] == "provider_unavailable";
    let start = Instant::now();
    while !is_blocked(&shop.show(&payment)) {
        assert!(start.elapsed() < PATIENCE);
    }
    let told = shop.told(&payment);
    assert!(
        told.contains("provider sandbox is paused by an operator: settle provider resume sandbox"),
        "{told}"
    );
    let shop = shop.restart();
    let listed = shop.settle.run(&["provider", "list"]);
    assert!(listed.ok().contains("alice, operator:"), "{listed:?}");
    assert!(is_blocked(&shop.show(&payment)));
    assert_eq!(shop.executed("conversion"), 0);
    shop.settle.run(&["provider", "resume", "sandbox"]).ok();
    shop.wait_for(&payment, "completed");
    let listed = shop.settle.run(&["provider", "list", "--json"]).json();
    let sandbox = &listed["providers"][0];
    assert!(sandbox["answered_at"].is_string(), "{sandbox}");
    assert_eq!(sandbox["unanswered"], 0, "{sandbox}");
    let unknown = shop.settle.run(&["provider", "pause", "nobody"]);
    assert!(unknown.failed().contains("not_found, 404"), "{unknown:?}");
}

fn a_corridor_with_an_unknown_provider_says_so(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let words = "this process does not know provider bank: the one that runs the engine needs \
                 SETTLE_PROVIDERS__BANK__URL and SETTLE_PROVIDERS__BANK__SECRET";
    let terms = ["--fee-percentage", "1.5", "--fee-fixed", "0.25", "--provider", "bank"];
    let set = shop.settle.run(&[&["corridor", "set", &shop.merchant, "BRL", "USDC"][..], &terms].concat());
    assert!(set.ok().contains("version 2") && set.stderr.contains(words), "{set:?}");
    let payment = shop.create("pix-1", "wallet-7");
    let told = shop.told(&payment);
    assert!(told.contains(words), "{told}");
    let terms = ["--fee-percentage", "1.5", "--fee-fixed", "0.25", "--provider", "sandbox"];
    let set = shop.settle.run(&[&["corridor", "set", &shop.merchant, "BRL", "USDC"][..], &terms].concat());
    assert!(set.ok().contains("version 3") && set.stderr.is_empty(), "{set:?}");
}

/// In a terminal without the service's settings, as in the README.
#[test]
fn who_has_no_providers_in_its_settings_is_not_warned() {
    let settle = Settle::sqlite(BINARY);
    let merchant = settle.merchant();
    let terms = ["--fee-percentage", "1.5", "--fee-fixed", "0.25", "--provider", "bank"];
    let set = settle.run(&[&["corridor", "set", &merchant, "BRL", "USDC"][..], &terms].concat());
    assert!(set.ok().contains("version 1") && !set.stderr.contains("Warning"), "{set:?}");
    let words =
        "Where the engine runs, SETTLE_PROVIDERS__BANK__URL and SETTLE_PROVIDERS__BANK__SECRET must be set";
    assert!(set.stderr.contains(words), "{set:?}");
}

fn who_has_another_secret_than_the_provider_is_told_so(settle: &mut Settle) {
    let shop = Shop::open(settle);
    shop.settle.set("SETTLE_PROVIDERS__SANDBOX__SECRET", "another");
    let mut shop = shop.restart();
    let serving = shop.serving.as_mut().expect("it runs");
    serving.wait_for_once("the provider turns us away: it does not accept our credentials (403)");
    let payment = shop.create("pix-1", "wallet-7");
    let start = Instant::now();
    while shop.show(&payment)["blocked"] != "provider_call_failed" {
        assert!(start.elapsed() < PATIENCE);
    }
    let told = shop.told(&payment);
    assert!(told.contains("provider sandbox turns us away (403): compare its secret with"), "{told}");
}

fn a_hint_makes_the_engine_look_if_it_is_signed_and_is_not_believed(settle: &mut Settle) {
    // By itself it would look in an hour.
    settle.set("SETTLE_ENGINE__RETRY_FIRST", "1h");
    settle.set("SETTLE_ENGINE__RETRY_MAX", "1h");
    let shop = Shop::open(settle);
    let payment = shop.create("pix-1", "sandbox:pending:1s");
    let start = Instant::now();
    let operation = loop {
        let shown = shop.show(&payment);
        if let Some(payout) = shown["operations"].as_array().and_then(|known| known.get(1))
            && payout["status"] == "accepted"
        {
            break payout["operation_id"].as_str().expect("an id").to_owned();
        }
        assert!(start.elapsed() < PATIENCE, "{shown:#}");
    };
    while shop.executed("payout") == 0 {
        assert!(start.elapsed() < PATIENCE);
    }
    // It lies: the provider has paid out.
    let body =
        json!({ "operation_id": operation, "status": "refused", "code": "payout_refused" }).to_string();
    let hint = |secret: &str| {
        let now = SystemClock.now();
        let signature = signature::sign(secret.as_bytes(), now, body.as_bytes());
        let timestamp = now.as_seconds().to_string();
        let headers = [
            ("service-timestamp", timestamp.as_str()),
            ("service-signature", signature.as_str()),
            ("content-type", "application/json"),
        ];
        answer(send(shop.operator, "POST", "/operator/v1/providers/sandbox/callback", &headers, &body)).status
    };
    let before = shop.show(&payment)["version"].clone();
    assert_eq!(hint("another secret"), 202);
    assert_eq!(shop.show(&payment)["version"], before, "nobody knows who said it");
    assert_eq!(hint("hush"), 202);
    shop.wait_for(&payment, "completed");
    assert_eq!(shop.executed("payout"), 1);
}

fn many_failed_payments_are_retried_at_once(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let failed: Vec<String> =
        (0..3).map(|number| shop.create(&format!("pix-{number}"), "sandbox:refuse")).collect();
    for payment in &failed {
        shop.wait_for(payment, "failed");
    }
    let retry = |dry_run: bool| {
        let body = json!({ "reason": "payout_refused", "dry_run": dry_run }).to_string();
        let authorization = format!("Bearer {}", shop.token);
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        answer(send(shop.operator, "POST", "/operator/v1/payments/retry", &headers, &body)).json()
    };
    let found = |answer: &Value| answer["payments"].as_array().map(Vec::len);
    let asked = retry(true);
    assert_eq!((found(&asked), &asked["more"]), (Some(3), &json!(false)), "{asked}");
    let operations = |payment: &String| shop.show(payment)["operations"].as_array().map(Vec::len);
    assert!(failed.iter().all(|payment| operations(payment) == Some(2)), "nothing was tried again");
    assert_eq!(found(&retry(false)), Some(3));
    let start = Instant::now();
    while !failed.iter().all(|payment| operations(payment) == Some(3)) {
        assert!(start.elapsed() < PATIENCE, "one more payout of each is asked for");
    }
    assert_eq!(shop.executed("payout"), 0);
}

fn wrong_input_is_named(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let posted = |body: &Value| {
        let authorization = format!("Bearer {}", shop.token);
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        answer(send(shop.operator, "POST", "/operator/v1/payments", &headers, &body.to_string()))
    };
    let payment = |changes: Value| {
        let mut payment = json!({
            "merchant_id": shop.merchant, "payin_reference": "r", "incoming_currency": "BRL",
            "incoming_amount": "10.00", "outgoing_currency": "USDC", "destination_reference": "wallet",
        });
        for (name, value) in changes.as_object().expect("an object") {
            payment[name] = value.clone();
        }
        payment
    };
    for (changes, words) in [
        (json!({ "incoming_currency": "QQQ" }), "incoming_currency: "),
        (json!({ "incoming_amount": "10.001" }), "incoming_amount"),
        (json!({ "incoming_amount": "-1" }), "incoming_amount: "),
        (json!({ "payin_reference": null }), "payin_reference: is required"),
        (json!({ "fixed_side": "outgoing" }), "outgoing_amount: is required"),
        (json!({ "colour": "red" }), "colour: is not a field of a payment"),
        (json!({ "merchant_id": "0190d3c4-7c00-7000-8000-0000000000ab" }), "there is no merchant"),
    ] {
        let refused = posted(&payment(changes.clone()));
        assert_eq!(refused.status, 422, "{changes}: {refused:?}");
        assert_eq!(refused.json()["error"]["code"], "admin_validation_failed");
        let details = refused.json()["error"]["details"].to_string();
        assert!(details.contains(words), "{changes}: {details}");
        let listed = posted(&json!([payment(json!({})), payment(changes)]));
        assert!(listed.json()["error"]["details"].to_string().contains("[1]."), "{listed:?}");
    }
    let none = get(shop.operator, "/operator/v1/payments", &shop.token).json();
    assert_eq!(none["payments"], json!([]), "all or none");
    let bad = shop.settle.run(&[
        "corridor",
        "set",
        &shop.merchant,
        "BRL",
        "USDC",
        "--fee-percentage",
        "101",
        "--fee-fixed",
        "0",
        "--provider",
        "sandbox",
    ]);
    assert!(bad.failed().contains("fee_percentage"), "{bad:?}");
    shop.settle.set("SETTLE_OPERATOR_TOKEN", "");
    let without = shop.settle.run(&["payment", "list"]);
    assert!(without.failed().contains("token"), "{without:?}");
}

/// One process has the listeners and sends, another settles.
fn a_process_may_settle_alone(settle: &mut Settle) {
    let mut shop = Shop::open(settle);
    shop.serving.take().expect("it runs").stop();
    let mut front = Serving::start(shop.settle, &["--role", "api,operator,dispatch"]);
    shop.api = front.listens("the merchant API listens");
    shop.operator = front.listens("the operator's listener listens");
    let shop = shop.at_its_desk();
    let payment = shop.create("pix-1", "wallet-7");
    let mut engine = Serving::start(shop.settle, &["--role", "engine"]);
    engine.wait_for("shards are served");
    shop.wait_for(&payment, "completed");
    let ready = get(shop.operator, "/readyz", "").json();
    assert_eq!((&ready["dispatcher"], &ready["engine"]), (&json!("serving"), &Value::Null), "{ready}");
    engine.stop();
    front.stop();
}
