//! `settle listen`: a receiver for an integrator's own machine.

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::{Value, json};
use settle_notify::notification::Notification;
use settle_testing::binary::{Settle, keys};
use settle_testing::serving::{Serving, answer, ask, send};

use crate::BINARY;
use crate::listening::{BODY, Listening, SECRET, delivery, from_now, secret, signed, signed_at};

#[test]
fn a_notification_is_verified_shown_and_answered() {
    let mut listening = Listening::start(&[]);
    let given = listening.post(&signed(1));
    assert_eq!((given.status, given.body.as_str()), (200, ""), "{given:?}");
    let [head, amounts, references] = listening.block();
    assert!(head.ends_with(&format!("  NEW        {}  attempt 1  answer 200", delivery(1))), "{head}");
    assert_eq!(amounts, "    1000.00 BRL → 181.149631 USDC  settlement 0190d3c4-7c00-7000-8000-0000000000a1");
    assert_eq!(references, "    payin E18236120202601311230s0a1b2c3d4e  payout -  destination carteira-são");
    let (stdout, stderr) = listening.stop();
    let all = [stdout, stderr].concat().join("\n");
    assert!(!all.contains(SECRET), "{all}");
}

#[test]
fn the_same_delivery_again_is_a_duplicate_and_is_answered_alike() {
    let mut listening = Listening::start(&[]);
    for (number, expected) in [(1, "NEW"), (2, "NEW"), (1, "DUPLICATE"), (1, "DUPLICATE")] {
        assert_eq!(listening.post(&signed(number)).status, 200);
        let head = listening.block()[0].clone();
        assert!(head.contains(&format!("  {expected:<9}  {}", delivery(number))), "{head}");
    }
    assert!(listening.stdout.read[9].contains("attempt 3"), "{:#?}", listening.stdout.read);
}

/// Posts a notification that must be refused: one line, the reason, status 400.
#[track_caller]
fn refused(listening: &mut Listening, notification: &Notification, reason: &str) {
    let given = listening.post(notification);
    assert_eq!(given.status, 400, "{given:?}");
    assert!(given.body.contains(reason), "{given:?}");
    let line = listening.stdout.next();
    assert!(line.contains(&format!("  REFUSED    {}  answer 400  ", delivery(1))), "{line}");
    assert!(line.contains(reason), "{line}");
}

#[test]
fn what_is_not_authentic_or_not_fresh_is_refused_with_the_reason() {
    let mut listening = Listening::start(&[]);
    let mut tampered = signed(1);
    tampered.body = BODY.replace("1000.00", "9000.00").into_bytes();
    refused(&mut listening, &tampered, "the signature does not match");
    let mut redated = signed(1);
    redated.headers.insert("service-timestamp", from_now(1).as_seconds().into());
    refused(&mut listening, &redated, "the signature does not match");
    refused(&mut listening, &signed_at(1, from_now(-400)), "seconds ago, which is too long");
    refused(&mut listening, &signed_at(1, from_now(400)), "seconds ahead");
    let mut unsigned = signed(1);
    unsigned.headers.remove("service-signature");
    refused(&mut listening, &unsigned, "the header service-signature is missing");
    // The refused ones do not count as attempts.
    assert_eq!(listening.post(&signed(1)).status, 200);
    let [head, ..] = listening.block();
    assert!(head.contains("  NEW ") && head.contains("attempt 1"), "{head}");
    let (stdout, stderr) = listening.stop();
    assert_eq!(stdout.len(), 8, "{stdout:#?}");
    assert_eq!(stderr.last().unwrap(), "6 received: 1 new, 0 duplicate, 0 test, 5 refused");
}

#[test]
fn what_is_no_notification_at_all_is_answered_too() {
    let mut listening = Listening::start(&[]);
    let given = answer(send(listening.address, "GET", "/", &[], ""));
    assert_eq!((given.status, given.header("allow")), (405, Some("POST")), "{given:?}");
    let (longest, too_long) = ("x".repeat(1_048_576), "x".repeat(1_048_577));
    for (body, status) in [("", 400), (&longest, 400), (&too_long, 413)] {
        let given = answer(send(listening.address, "POST", "/", &[], body));
        assert_eq!(given.status, status, "{given:?}");
        let line = listening.stdout.next();
        assert!(line.contains(&format!("  REFUSED    -  answer {status}  ")), "{line}");
    }
    assert_eq!(listening.post(&signed(1)).status, 200, "it goes on");
    let (_, stderr) = listening.stop();
    assert_eq!(stderr.last().unwrap(), "4 received: 1 new, 0 duplicate, 0 test, 3 refused");
}

#[test]
fn a_test_delivery_is_called_one() {
    let mut listening = Listening::start(&[]);
    let test = Notification::test(&secret(), delivery(1).parse().unwrap(), from_now(0));
    assert_eq!(listening.post(&test).status, 200);
    let [head, amounts, _] = listening.block();
    assert!(head.contains(&format!("  TEST       {}", delivery(1))), "{head}");
    assert!(amounts.contains("0 XTS → 0 XTS"), "{amounts}");
    let (_, stderr) = listening.stop();
    assert_eq!(stderr.last().unwrap(), "1 received: 0 new, 0 duplicate, 1 test, 0 refused");
}

#[test]
fn another_status_is_for_good_ones_only() {
    let mut listening = Listening::start(&["--status", "500"]);
    for expected in ["NEW", "DUPLICATE"] {
        assert_eq!(listening.post(&signed(1)).status, 500);
        let [head, ..] = listening.block();
        assert!(head.contains(expected) && head.ends_with("answer 500"), "{head}");
    }
    refused(&mut listening, &signed_at(1, from_now(-400)), "too long");
}

#[test]
fn a_delayed_answer_is_given_when_the_receiver_stops_at_the_latest() {
    let mut listening = Listening::start(&["--delay", "1h", "--status", "202"]);
    let waiting = listening.send(&signed(1));
    assert!(listening.block()[0].contains("  NEW "), "shown before it is answered");
    // A refusal is not delayed. When it is answered, the other one has had its chance too.
    refused(&mut listening, &signed_at(1, from_now(-400)), "too long");
    waiting.set_nonblocking(true).unwrap();
    let peeked = waiting.peek(&mut [0]).expect_err("no answer yet");
    assert_eq!(peeked.kind(), ErrorKind::WouldBlock);
    waiting.set_nonblocking(false).unwrap();
    listening.interrupt();
    assert_eq!(answer(waiting).status, 202);
    listening.ended();
}

#[test]
fn json_is_one_object_a_line_and_nothing_else_on_standard_output() {
    let mut listening = Listening::start(&["--json"]);
    listening.post(&signed(1));
    listening.post(&signed(1));
    listening.post(&signed_at(1, from_now(-400)));
    listening.post(&Notification::test(&secret(), delivery(2).parse().unwrap(), from_now(0)));
    let mut sent: Value = serde_json::from_str(BODY).unwrap();
    sent.as_object_mut().unwrap().remove("event");
    for (verdict, number, attempts, status) in
        [("new", 1, json!(1), 200), ("duplicate", 1, json!(2), 200), ("refused", 1, Value::Null, 400)]
    {
        let line: Value = serde_json::from_str(&listening.stdout.next()).unwrap();
        let expected_keys =
            ["attempts", "delivery_id", "reason", "received_at", "settlement", "status", "verdict"];
        assert_eq!(keys(&line), expected_keys);
        assert_eq!(
            (&line["verdict"], &line["delivery_id"], &line["attempts"], &line["status"]),
            (&json!(verdict), &json!(delivery(number)), &attempts, &json!(status))
        );
        assert!(line["received_at"].as_str().unwrap().ends_with("+00:00"), "{line}");
        let is_refused = verdict == "refused";
        assert_eq!(line["reason"].is_string(), is_refused, "{line}");
        assert_eq!(line["settlement"], if is_refused { Value::Null } else { sent.clone() });
    }
    let (stdout, stderr) = listening.stop();
    let test: Value = serde_json::from_str(&stdout[3]).unwrap();
    assert_eq!((stdout.len(), &test["verdict"]), (4, &json!("test")));
    assert_eq!(stderr.last().unwrap(), "4 received: 1 new, 1 duplicate, 1 test, 1 refused");
}

#[test]
fn a_port_that_cannot_be_used_is_refused() {
    let settle = Settle::sqlite(BINARY);
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().port().to_string();
    let listen = |port: &str| settle.run(&["listen", "--secret", SECRET, "--port", port]);
    assert_eq!(listen("99999").code, Some(2));
    assert_eq!(listen("http").code, Some(2));
    // The guard sends nothing to these ports, so nothing would ever arrive.
    for port in ["22", "6000"] {
        let ran = listen(port);
        assert!(ran.failed().contains(&format!("Settle sends nothing to port {port}")), "{ran:?}");
    }
    let ran = listen(&taken);
    assert!(ran.failed().contains(&format!("cannot listen on 127.0.0.1:{taken}")), "{ran:?}");
}

#[test]
fn other_bad_arguments_are_refused_without_repeating_the_secret() {
    let settle = Settle::sqlite(BINARY);
    for arguments in [&["--status", "99"], &["--status", "600"], &["--delay", "soon"], &["--delay", "0s"]] {
        let ran = settle.run(&[&["listen", "--secret", SECRET, "--port", "0"], &arguments[..]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(!ran.stderr.contains(SECRET), "{ran:?}");
    }
    let ran = settle.run(&["listen", "--port", "0"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("--secret"), "{ran:?}");
    for secret in ["", "with\ncontrol", &"long".repeat(65)] {
        let ran = settle.run(&["listen", "--port", "0", "--secret", secret]);
        assert!(ran.failed().contains("a webhook secret is 1 to 256 bytes"), "{ran:?}");
        assert!(secret.is_empty() || !ran.stderr.contains(secret), "{ran:?}");
    }
    let help = settle.with("SETTLE_LISTEN_SECRET", SECRET).run(&["listen", "--help"]);
    assert!(help.ok().contains("SETTLE_LISTEN_SECRET") && !help.stdout.contains(SECRET), "{help:?}");
}

#[test]
fn it_needs_no_settings_and_no_data_folder() {
    let settle = Settle::sqlite(BINARY).with("SETTLE_UNKNOWN", "x");
    settle.write("settle.toml", "not TOML");
    let listening = Listening::start_in(&settle, &[]);
    assert_eq!(listening.post(&signed(1)).status, 200);
    listening.stop();
    assert!(!settle.data().exists());
}

#[test]
fn the_hint_leads_to_a_delivered_test() {
    // The variable may stay exported: it is not a setting, and other commands ignore it.
    let mut settle = Settle::sqlite(BINARY).with("SETTLE_LISTEN_SECRET", SECRET);
    let mut listening = Listening::start_in(&settle, &[]);
    listening.stderr.next();
    let line = listening.stderr.next();
    let variables = line.trim().strip_suffix(" settle serve").unwrap_or_else(|| panic!("{line}"));
    for (name, value) in variables.split(' ').map(|variable| variable.split_once('=').unwrap()) {
        settle.set(name, value);
    }
    let line = listening.stderr.next();
    let body = line.split(" -d '").nth(1).and_then(|rest| rest.strip_suffix('\'')).unwrap();
    let body = body.replace(r#"'"$SETTLE_LISTEN_SECRET"'"#, SECRET);
    let (_, key) = settle.key(&settle.merchant());
    let (serving, api, _) = Serving::ready(&settle);
    let put = send(
        api,
        "PUT",
        "/v1/webhook",
        &[("authorization", &format!("Bearer {key}")), ("content-type", "application/json")],
        &body,
    );
    let put = answer(put);
    assert_eq!(put.status, 200, "{body}: {put:?}");
    let tested = ask(api, "POST", "/v1/webhook/test", &key, "");
    assert_eq!(tested.json()["delivered"], true, "{tested:?}");
    assert!(listening.block()[0].contains("  TEST "), "{:#?}", listening.stdout.read);
    serving.stop();
    listening.stop();
}
