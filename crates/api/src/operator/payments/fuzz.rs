//! Pay-ins, acts and filters of payments on whatever an operator may send: what is accepted reads the same
//! after it is written, and every fault is named.

use proptest::prelude::*;
use serde_json::{Value, json};
use settle_domain::page::LIMIT_MAX;
use settle_domain::payment::Act;
use settle_engine::advance::Deed;
use settle_store::PaymentFilter;
use settle_testing::corpus::{JSON_PIECES, lines, near};

use super::super::fuzz::{QUERIES, QUERY_PIECES, assert_named, fields};
use super::acts::{deed_of, resolution_of};
use super::filter::{Asked, Place, filter};
use super::*;

const PAYMENTS: &str = include_str!("../../../tests/data/fuzz_payments.txt");
const ACTS: &str = include_str!("../../../tests/data/fuzz_acts.txt");
const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const PAYMENT_FIELDS: [&str; 10] = [
    "merchant_id",
    "payin_reference",
    "payin_source",
    "incoming_currency",
    "incoming_amount",
    "outgoing_currency",
    "outgoing_amount",
    "destination_reference",
    "occurred_at",
    "fixed_side",
];
const ACT_FIELDS: [&str; 6] =
    ["version", "evidence", "outcome", "amount", "provider_reference", "destination_reference"];
const FILTERS: [&str; 10] = [
    "limit",
    "after",
    "state",
    "flag",
    "merchant_id",
    "blocked",
    "reason",
    "provider",
    "reference",
    "older_than",
];

/// Whether the body has pay-ins, alone or in a list.
fn read_payments(body: &str) -> bool {
    match read(body.as_bytes(), NOW) {
        Ok((orders, is_list)) => {
            assert!((1..=PAYMENTS_AT_ONCE_MAX).contains(&orders.len()) && (is_list || orders.len() == 1));
            for Undated { order, is_undated } in &orders {
                let (again, _) = read(written(order).to_string().as_bytes(), NOW).expect("what was read");
                let orders: Vec<&PaymentOrder> = again.iter().map(|undated| &undated.order).collect();
                assert_eq!(orders, [order], "{body}");
                assert!(!is_undated || order.occurred_at == NOW, "{body}");
            }
            true
        }
        Err(refusal) => {
            assert_named(&refusal, &PAYMENT_FIELDS);
            false
        }
    }
}

fn written(order: &PaymentOrder) -> Value {
    let fixed_side = if order.outgoing_target.is_some() { "outgoing" } else { "incoming" };
    json!({
        "merchant_id": order.merchant_id,
        "payin_source": order.payin.source(),
        "payin_reference": order.payin.reference(),
        "incoming_currency": order.incoming,
        "incoming_amount": order.incoming_amount,
        "outgoing_currency": order.outgoing,
        "outgoing_amount": order.outgoing_target,
        "fixed_side": fixed_side,
        "destination_reference": order.destination_reference,
        "occurred_at": order.occurred_at,
    })
}

/// What an operation reads from a body, if it is an object. Without an act, what the body says became of an
/// operation.
fn act_in(body: &str, act: Option<Act>) -> Option<Result<(u64, Deed), ApiError>> {
    let mut fields = fields(body)?;
    let act = act.unwrap_or_else(|| resolution_of(&mut fields));
    Some(deed_of(act, Actor::Command, fields))
}

fn written_act(version: u64, deed: &Deed) -> Value {
    let mut body = json!({ "version": version, "evidence": deed.evidence });
    match deed.act {
        Act::Retry => body["destination_reference"] = json!(deed.destination_reference),
        Act::Resolve(outcome) => {
            body["outcome"] = json!(outcome);
            body["amount"] = json!(deed.amount);
            body["provider_reference"] = json!(deed.provider_reference);
        }
        Act::Refund | Act::Cancel | Act::Returned => {}
    }
    body
}

/// How many operations take the body.
fn read_acts(body: &str) -> usize {
    let acts = [Some(Act::Retry), Some(Act::Refund), Some(Act::Cancel), Some(Act::Returned), None];
    let is_taken = |act: Option<Act>| match act_in(body, act) {
        Some(Ok((version, deed))) => {
            let again = act_in(&written_act(version, &deed).to_string(), act).expect("an object");
            let (again_version, again) = again.expect("what was read");
            assert_eq!((again_version, format!("{again:?}")), (version, format!("{deed:?}")), "{body}");
            true
        }
        Some(Err(refusal)) => {
            assert_named(&refusal, &ACT_FIELDS);
            false
        }
        None => false,
    };
    acts.into_iter().filter(|act| is_taken(*act)).count()
}

/// Whether the query is a filter.
fn read_filter(query: &str) -> bool {
    match filter(Some(query), NOW) {
        Ok(asked) => {
            let again = filter(Some(&written_filter(&asked)), NOW).expect("what was read");
            let told = |(found, after, limit): Asked| (found, after.map(|place| place.to_string()), limit);
            let (again, asked) = (told(again), told(asked));
            assert!((1..=LIMIT_MAX).contains(&asked.2), "{query:?}");
            assert_eq!(again, asked, "{query:?}");
            true
        }
        Err(refusal) => {
            assert_named(&refusal, &FILTERS);
            false
        }
    }
}

fn written_filter((found, after, limit): &Asked) -> String {
    let PaymentFilter { merchant_id, state, flag, blocked, reason, provider, reference, changed_by } = found;
    let pairs = [
        ("limit", Some(limit.to_string())),
        ("after", after.map(|Place(merchant, payment)| format!("{merchant}.{payment}"))),
        ("state", state.map(|state| state.to_string())),
        ("flag", flag.map(|flag| flag.to_string())),
        ("merchant_id", merchant_id.map(|merchant| merchant.to_string())),
        ("blocked", blocked.map(|blocked| blocked.to_string())),
        ("reason", reason.map(|reason| reason.to_string())),
        ("provider", provider.as_ref().map(ToString::to_string)),
        ("reference", reference.clone()),
        ("older_than", changed_by.map(|by| format!("{}us", NOW.since(by).as_micros()))),
    ];
    let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name, value?)));
    form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
}

#[test]
fn the_corpus() {
    let payments = lines(PAYMENTS).iter().filter(|body| read_payments(body)).count();
    assert!(payments >= 5, "{payments} bodies of payments were read");
    let acts: usize = lines(ACTS).iter().map(|body| read_acts(body)).sum();
    assert!(acts >= 12, "{acts} bodies of acts were read");
    let filters = lines(QUERIES).iter().filter(|query| read_filter(query)).count();
    assert!(filters >= 20, "{filters} queries were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_body_is_pay_ins_or_refused_by_name(body in near(lines(PAYMENTS), JSON_PIECES)) {
        read_payments(&body);
        read_payments(&format!("[{body},{body}]"));
    }

    #[test]
    fn any_body_is_an_act_or_refused_by_name(body in near(lines(ACTS), JSON_PIECES)) {
        read_acts(&body);
    }

    #[test]
    fn any_query_is_a_filter_or_refused_by_name(query in near(lines(QUERIES), QUERY_PIECES)) {
        read_filter(&query);
    }
}
