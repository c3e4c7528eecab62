//! The machine's table, every state and event; what late operations do to it; and random walks that keep the
//! books.

use std::collections::BTreeMap;

use super::*;
use crate::error_code::ErrorCode;
use crate::ledger::{Held, Movement};
use crate::operation::{News, OperationKind, Refusal, RefusalCode};

mod table;
mod walks;

fn standing(state: PaymentState) -> Standing {
    Standing { state, reason: None, expired_quotes: 0, late: None, operation: None, is_unsent: false }
}

fn refusal(kind: OperationKind) -> Refusal {
    Refusal::of(match kind {
        OperationKind::Conversion => RefusalCode::ConversionRefused,
        OperationKind::Payout | OperationKind::Refund => RefusalCode::PayoutRefused,
    })
}

fn expired(kind: OperationKind) -> Refusal {
    Refusal { quote_expired: true, ..refusal(kind) }
}

/// Every event but those of late operations, by its name.
fn events() -> BTreeMap<String, PaymentEvent> {
    let is_late = |event: &PaymentEvent| {
        matches!(event, PaymentEvent::Operation(_, News::LateSucceeded | News::LateReturned | News::Revived))
    };
    let all = PaymentEvent::all();
    let names: BTreeMap<String, PaymentEvent> = all.iter().map(|event| (event.name(), *event)).collect();
    assert_eq!((names.len(), all.len()), (43, 43), "every event has a name of its own");
    names.into_iter().filter(|(_, event)| !is_late(event)).collect()
}

#[test]
fn the_twentieth_expired_quote_fails_the_payment() {
    let expired =
        PaymentEvent::Operation(OperationKind::Conversion, News::Refused(expired(OperationKind::Conversion)));
    for (state, event, movement) in [
        (PaymentState::Quoted, PaymentEvent::QuoteExpired, Movement::None),
        (PaymentState::Converting, expired, Movement::AbandonConversion),
    ] {
        for count in 0..EXPIRED_QUOTES_MAX {
            let before = Standing { expired_quotes: count, ..standing(state) };
            let after = transition(&before, event).unwrap();
            let expected = if count < 19 {
                (PaymentState::Received, None)
            } else {
                (PaymentState::Failed(Held::Incoming), Some(Reason::QuoteRefused))
            };
            assert_eq!((after.to, after.reason), expected, "{count}");
            assert_eq!((after.expired_quotes, after.movement), (count + 1, movement));
        }
    }
    let failed = Standing { expired_quotes: 20, ..standing(PaymentState::Failed(Held::Incoming)) };
    let retried = transition(&failed, PaymentEvent::Operator(Act::Retry)).unwrap();
    assert_eq!((retried.to, retried.expired_quotes), (PaymentState::Received, 0), "a retry counts anew");
}

#[test]
fn a_refused_act_has_the_code_that_says_why() {
    let code = |state, operation| {
        let standing = Standing { operation, ..standing(state) };
        transition(&standing, PaymentEvent::Operator(Act::Retry)).unwrap_err().code
    };
    let (prepared, accepted, unknown) =
        (Some(OperationStatus::Prepared), Some(OperationStatus::Accepted), Some(OperationStatus::Unknown));
    let flights = [
        (PaymentState::Converting, Review::Conversion, ErrorCode::ConversionOutcomeUnknown),
        (PaymentState::PayingOut, Review::Payout, ErrorCode::PayoutOutcomeUnknown),
        (
            PaymentState::Refunding(Held::Incoming),
            Review::Refund(Held::Incoming),
            ErrorCode::PayoutOutcomeUnknown,
        ),
    ];
    for (state, review, outcome_unknown) in flights {
        assert_eq!(code(state, prepared), ErrorCode::ProviderStillProcessing);
        assert_eq!(code(state, accepted), ErrorCode::ProviderStillProcessing);
        assert_eq!(code(state, unknown), outcome_unknown);
        assert_eq!(code(PaymentState::NeedsReview(review), unknown), outcome_unknown);
        assert_eq!(code(PaymentState::NeedsReview(review), None), outcome_unknown);
        assert_eq!(code(PaymentState::NeedsReview(review), accepted), ErrorCode::ProviderStillProcessing);
    }
    for state in [
        PaymentState::Received,
        PaymentState::Quoted,
        PaymentState::Converted,
        PaymentState::Completed { is_returned: false },
        PaymentState::Refunded { is_returned: false },
    ] {
        assert_eq!(code(state, None), ErrorCode::Conflict, "{state:?}");
    }
}

#[test]
fn a_person_resolves_what_is_unknown_and_not_what_the_provider_works_on() {
    let paid = PaymentEvent::Operator(Act::Resolve(Outcome::Paid));
    let with = |state, operation| transition(&Standing { operation, ..standing(state) }, paid);
    let unknown = Some(OperationStatus::Unknown);
    let after = with(PaymentState::PayingOut, unknown).unwrap();
    assert_eq!((after.to.name(), after.mark), (StateName::Completed, Some(Mark::Succeeded)));
    for operation in [None, Some(OperationStatus::Prepared), Some(OperationStatus::Accepted)] {
        assert!(with(PaymentState::PayingOut, operation).is_err(), "{operation:?}");
    }
    let review = PaymentState::NeedsReview(Review::Payout);
    assert!(with(review, unknown).is_ok() && with(review, Some(OperationStatus::Prepared)).is_ok());
    let processing = with(review, Some(OperationStatus::Accepted)).unwrap_err();
    assert_eq!(processing.code, ErrorCode::ProviderStillProcessing);
    let not_paid = PaymentEvent::Operator(Act::Resolve(Outcome::NotPaid));
    let after = transition(&Standing { operation: unknown, ..standing(review) }, not_paid).unwrap();
    assert_eq!((after.to, after.mark), (PaymentState::Failed(Held::Outgoing), Some(Mark::GivenUp)));
}

#[test]
fn what_its_provider_never_got_can_be_cancelled() {
    let cancel = PaymentEvent::Operator(Act::Cancel);
    for (state, held, movement) in [
        (PaymentState::Converting, Held::Incoming, Movement::AbandonConversion),
        (PaymentState::PayingOut, Held::Outgoing, Movement::AbandonPayout),
        (PaymentState::Refunding(Held::Outgoing), Held::Outgoing, Movement::AbandonRefund(Held::Outgoing)),
    ] {
        assert!(transition(&standing(state), cancel).is_err(), "{state:?}: it may have been sent");
        let unsent = Standing { is_unsent: true, ..standing(state) };
        let after = transition(&unsent, cancel).unwrap();
        assert_eq!(
            (after.to, after.movement, after.mark),
            (PaymentState::Failed(held), movement, Some(Mark::GivenUp))
        );
    }
}

#[test]
fn nobody_unsays_that_an_operation_was_done() {
    for (review, done, not_done) in [
        (Review::Conversion, Outcome::Converted, Outcome::NotConverted),
        (Review::Payout, Outcome::Paid, Outcome::NotPaid),
        (Review::Refund(Held::Incoming), Outcome::Refunded, Outcome::NotRefunded),
        (Review::Refund(Held::Outgoing), Outcome::Refunded, Outcome::NotRefunded),
    ] {
        let operation = Some(OperationStatus::Succeeded);
        let reviewed = Standing { operation, ..standing(PaymentState::NeedsReview(review)) };
        assert!(transition(&reviewed, PaymentEvent::Operator(Act::Resolve(done))).is_ok(), "{review:?}");
        let unsaid = transition(&reviewed, PaymentEvent::Operator(Act::Resolve(not_done)));
        assert!(unsaid.is_err(), "{review:?}: {unsaid:?}");
    }
}

/// Whether the engine may send something for a payment in this state.
fn may_send(state: PaymentState) -> bool {
    state.is_engines()
}

#[test]
fn an_operation_that_moves_late_stops_the_payment_wherever_it_is() {
    for state in PaymentState::ALL {
        for kind in OperationKind::ALL.iter().copied() {
            for (news, moved) in [(News::LateSucceeded, true), (News::Revived, false)] {
                let after = transition(&standing(state), PaymentEvent::Operation(kind, news)).unwrap();
                let expected = match (state.flight(), state.held()) {
                    (Some(flight), _) => flight.review(),
                    (None, Some(held)) => PaymentState::NeedsReview(Review::Halted(held)),
                    (None, None) => state,
                };
                assert_eq!(after.to, expected, "{state:?}");
                assert!(!may_send(after.to) && after.alerts, "{state:?}");
                assert_eq!(after.late, Some(Late { kind, moved }));
                let movement = if moved { Movement::MoveLate(kind) } else { Movement::None };
                assert_eq!(after.movement, movement);
            }
        }
    }
}

#[test]
fn nothing_more_is_sent_for_a_payment_while_something_moved_without_it() {
    let late = Some(Late { kind: OperationKind::Payout, moved: true });
    for state in PaymentState::ALL {
        for (name, event) in events() {
            // Where the engine acts by itself a late operation cannot be pending: it has stopped the payment.
            let reachable = match state {
                PaymentState::NeedsReview(_) | PaymentState::Completed { .. } => true,
                _ => matches!(state, PaymentState::Refunded { .. }),
            };
            let before = Standing { late, ..standing(state) };
            if let (true, Ok(after)) = (reachable, transition(&before, event)) {
                let is_decided = after.late.is_none();
                assert!(is_decided || !may_send(after.to), "{state:?} {name}: {after:?}");
                assert!(is_decided || !matches!(after.to, PaymentState::Failed(_)), "{state:?} {name}");
            }
        }
    }
}

#[test]
fn a_person_decides_about_a_late_operation() {
    let halted = |kind, held| Standing {
        late: Some(Late { kind, moved: true }),
        ..standing(PaymentState::NeedsReview(Review::Halted(held)))
    };
    let resolve = |kind, held, outcome| {
        transition(&halted(kind, held), PaymentEvent::Operator(Act::Resolve(outcome)))
            .map(|after| (after.to, after.mark, after.late))
    };
    let (conversion, payout, refund) =
        (OperationKind::Conversion, OperationKind::Payout, OperationKind::Refund);
    let adopted = |to, kind| Ok((to, Some(Mark::Adopted(kind)), None));
    let completed = PaymentState::Completed { is_returned: false };
    let refunded = PaymentState::Refunded { is_returned: false };
    assert_eq!(resolve(payout, Held::Outgoing, Outcome::Paid), adopted(completed, payout));
    assert!(resolve(payout, Held::Incoming, Outcome::Paid).is_err(), "nothing was bought");
    assert_eq!(
        resolve(conversion, Held::Incoming, Outcome::Converted),
        adopted(PaymentState::Converted, conversion)
    );
    let houses = Ok((PaymentState::Converted, None, None));
    assert_eq!(resolve(conversion, Held::Outgoing, Outcome::Converted), houses);
    for held in Held::ALL.iter().copied() {
        assert_eq!(resolve(refund, held, Outcome::Refunded), adopted(refunded, refund));
        let failed = Ok((PaymentState::Failed(held), None, None));
        assert_eq!(resolve(payout, held, Outcome::NotPaid), failed);
        assert_eq!(resolve(refund, held, Outcome::NotRefunded), failed);
        assert_eq!(resolve(conversion, held, Outcome::NotConverted), failed);
        for act in [Act::Retry, Act::Refund, Act::Cancel, Act::Resolve(Outcome::Converted)] {
            let refused = transition(&halted(payout, held), PaymentEvent::Operator(act)).unwrap_err();
            assert_eq!(refused.code, ErrorCode::PayoutOutcomeUnknown, "{act:?}");
        }
    }
}

#[test]
fn what_is_known_to_have_moved_outweighs_what_may_move() {
    let late = |kind, moved| Late { kind, moved };
    let (payout, refund) = (OperationKind::Payout, OperationKind::Refund);
    let conversion = OperationKind::Conversion;
    let state = PaymentState::NeedsReview(Review::Halted(Held::Outgoing));
    for (known, kind, news, expected) in [
        (late(payout, true), refund, News::Revived, late(payout, true)),
        (late(payout, true), payout, News::Revived, late(payout, true)),
        (late(payout, true), refund, News::LateSucceeded, late(payout, true)),
        (late(payout, true), conversion, News::LateSucceeded, late(payout, true)),
        (late(conversion, true), payout, News::LateSucceeded, late(payout, true)),
        (late(conversion, true), refund, News::LateSucceeded, late(refund, true)),
        (late(conversion, true), payout, News::Revived, late(conversion, true)),
        (late(payout, false), payout, News::LateSucceeded, late(payout, true)),
        (late(payout, false), refund, News::LateSucceeded, late(refund, true)),
        (late(payout, true), payout, News::LateReturned, late(payout, false)),
        (late(payout, true), refund, News::LateReturned, late(payout, true)),
    ] {
        let before = Standing { late: Some(known), ..standing(state) };
        let after = transition(&before, PaymentEvent::Operation(kind, news)).unwrap();
        assert_eq!((after.late, after.to), (Some(expected), state), "{known:?} {kind} {news:?}");
    }
}

#[test]
fn a_review_alerts_once_and_a_return_always() {
    let unclear = PaymentEvent::Operation(OperationKind::Payout, News::Unclear);
    assert!(transition(&standing(PaymentState::PayingOut), unclear).unwrap().alerts);
    let reason = Some(Reason::UnexpectedFailure);
    let review = Standing { reason, ..standing(PaymentState::NeedsReview(Review::Payout)) };
    let again = transition(&review, unclear).unwrap();
    assert_eq!((again.to, again.reason, again.alerts), (review.state, reason, false), "it keeps its reason");
    let returned = PaymentEvent::Operator(Act::Returned);
    assert!(transition(&standing(PaymentState::Completed { is_returned: false }), returned).unwrap().alerts);
}

#[test]
fn every_state_is_read_back_from_its_columns_and_no_other_columns_are() {
    let mut readable = 0;
    for name in StateName::ALL.iter().copied() {
        for unknown in OperationKind::ALL.iter().copied().map(Some).chain([None]) {
            for held in Held::ALL.iter().copied().map(Some).chain([None]) {
                for is_returned in [false, true] {
                    let parts = StateParts { name, unknown, held, is_returned };
                    if let Some(state) = PaymentState::from_parts(parts) {
                        assert_eq!(state.parts(), parts);
                        readable += 1;
                    }
                }
            }
        }
    }
    assert_eq!(readable, PaymentState::ALL.len());
    for state in PaymentState::ALL {
        assert_eq!(PaymentState::from_parts(state.parts()), Some(state));
    }
}

#[test]
fn completion_records_the_frozen_amounts_and_apart_from_them_what_we_earned() {
    let decimal = |text: &str| text.parse::<Decimal>().unwrap();
    let payment = walks::Walk::new("USDC").completed();
    let at = "2026-01-31T09:31:00Z".parse().unwrap();
    let completed = payment.completed(at, Some("p1".to_owned())).unwrap();
    let pricing = completed.pricing.unwrap();
    assert_eq!(pricing.provider_rate, decimal("5.43000001814"));
    assert_eq!(pricing.spread_revenue, decimal("1.221670"));
    assert_eq!(pricing.partner_commission, decimal("0.601717"));
    let record = completed.settlement.record();
    assert_eq!(completed.settlement.settlement_id.0, payment.payment_id.0);
    let expected = concat!(
        r#""completed_at":"2026-01-31T09:31:00.000000+00:00","occurred_at":"2026-01-31T09:30:00.000000+00:00","#,
        r#""payin_reference":"pix","payout_reference":"p1","destination_reference":"wallet","#,
        r#""incoming_currency":"BRL","incoming_amount":"1000.00","outgoing_currency":"USDC","#,
        r#""outgoing_amount":"179.353595","conversion_rate":"5.48430001832","fixed_side":"incoming","#,
        r#""fee_percentage":"1.5","fee_percentage_amount":"2.735080","fee_fixed":"0.250000"}"#
    );
    assert!(record.as_str().ends_with(expected), "{}", record.as_str());
    assert_eq!(Payment { split: None, ..payment }.completed(at, None), None);
}
