//! The classification, row by row, and its two promises over any sequence of answers.

use proptest::prelude::*;

use super::*;
use crate::operation::RefusalCode;

const NEW: Memory = Memory::NEW;
const UNKNOWN: Memory = Memory { status: OperationStatus::Unknown, was_unknown: true, ..NEW };
const ACCEPTED: Memory = Memory { status: OperationStatus::Accepted, was_accepted: true, ..NEW };
const REFUSED: Memory = Memory { status: OperationStatus::Refused, ..NEW };
const GIVEN_UP: Memory = Memory { status: OperationStatus::GivenUp, was_unknown: true, ..NEW };
const SUCCEEDED: Memory = Memory { status: OperationStatus::Succeeded, ..NEW };

const REFUSAL: Refusal = Refusal::of(RefusalCode::PayoutRefused);
const DONE: Answer = Answer::Succeeded(Judgement::AsAsked);
const OTHERWISE: Answer = Answer::Succeeded(Judgement::Otherwise);

/// A payout within its window, whose payment waits for it.
fn rule(memory: Memory, seen: Seen) -> Ruling {
    classify(OperationKind::Payout, memory, seen, Window::Open, Sends::Allowed)
}

fn after_window(memory: Memory, seen: Seen) -> Ruling {
    classify(OperationKind::Payout, memory, seen, Window::Over, Sends::Allowed)
}

/// What the row says: class, status, what is done next, what the payment hears.
fn row(ruling: Ruling) -> (Class, OperationStatus, Next, Option<News>) {
    (ruling.class, ruling.memory.status, ruling.next, ruling.news)
}

use Class::{Absent, Accepted, Done, NotExecuted, NothingLearnt};
use OperationStatus as Status;

#[test]
fn no_byte_left_us_or_turned_away_is_not_executed_and_sent_again_under_the_same_key() {
    let unsent = [
        (Seen::NotSent, Blocked::ProviderUnavailable),
        (Seen::TurnedAway(Blocked::ProviderUnavailable), Blocked::ProviderUnavailable),
        (Seen::TurnedAway(Blocked::RailInactive), Blocked::RailInactive),
        (Seen::TurnedAway(Blocked::FxAccountsMissing), Blocked::FxAccountsMissing),
        (Seen::TurnedAway(Blocked::PayoutWalletOutOfGas), Blocked::PayoutWalletOutOfGas),
    ];
    for (seen, blocked) in unsent {
        let ruling = rule(NEW, seen);
        assert_eq!(row(ruling), (NotExecuted, Status::Prepared, Next::Send, None), "{seen:?}");
        assert_eq!((ruling.blocked, ruling.memory), (Some(blocked), NEW), "{seen:?}");
        // What was certainly never executed does not depend on how long the provider remembers keys.
        assert_eq!(after_window(NEW, seen).next, Next::Send, "{seen:?}");
        let stopped = classify(OperationKind::Payout, NEW, seen, Window::Open, Sends::Stopped);
        assert_eq!(stopped.next, Next::LookUp, "{seen:?}: nothing is sent under review");
    }
}

#[test]
fn our_credentials_are_ours_to_mend() {
    let signed = rule(NEW, Seen::Unauthorised { signed: true });
    assert_eq!(row(signed), (NotExecuted, Status::Prepared, Next::Send, None));
    let unsigned = rule(NEW, Seen::Unauthorised { signed: false });
    assert_eq!(row(unsigned), (Class::Unknown, Status::Unknown, Next::LookUp, None));
    assert!(unsigned.memory.was_unknown, "whoever said so may have let the request through");
    for ruling in [signed, unsigned] {
        assert_eq!(ruling.blocked, Some(Blocked::ProviderCallFailed));
        assert_eq!(ruling.alarm, Some(Alarm::Credentials));
    }
}

#[test]
fn a_signed_refusal_of_the_only_send_is_a_refusal() {
    let expired = Refusal { code: RefusalCode::ConversionRefused, quote_expired: true };
    for refusal in [REFUSAL, expired] {
        let ruling = rule(NEW, Seen::Answered(Answer::Refused(refusal)));
        let news = Some(News::Refused(refusal));
        assert_eq!(row(ruling), (Class::Refused, Status::Refused, Next::Nothing, news));
    }
}

#[test]
fn a_conflict_is_unknown_and_a_person_looks_at_once() {
    for memory in [NEW, UNKNOWN, ACCEPTED] {
        let ruling = rule(memory, Seen::Conflict);
        let unclear = Some(News::Unclear);
        assert_eq!(row(ruling), (Class::Unknown, Status::Unknown, Next::LookUp, unclear), "{memory:?}");
        assert!(ruling.memory.was_unknown);
    }
}

#[test]
fn pending_is_accepted_and_looked_up_without_an_end() {
    for seen in [Seen::Answered(Answer::Pending), Seen::Found(Answer::Pending)] {
        for memory in [NEW, UNKNOWN, ACCEPTED] {
            for window in [Window::Open, Window::Over] {
                let ruling = classify(OperationKind::Payout, memory, seen, window, Sends::Allowed);
                assert_eq!(row(ruling), (Accepted, Status::Accepted, Next::LookUp, None));
                assert!(ruling.memory.was_accepted);
                assert_eq!(ruling.memory.was_unknown, memory.was_unknown);
                assert_eq!(ruling.reason, Some(Reason::ProviderStillProcessing));
            }
        }
    }
}

#[test]
fn success_that_matches_is_done() {
    for seen in [Seen::Answered(DONE), Seen::Found(DONE), Seen::Voided(DONE)] {
        for memory in [NEW, UNKNOWN, ACCEPTED] {
            let succeeded = Some(News::Succeeded);
            let expected = (Done, Status::Succeeded, Next::Nothing, succeeded);
            assert_eq!(row(rule(memory, seen)), expected, "{memory:?} {seen:?}");
        }
    }
}

#[test]
fn anything_else_is_unknown_and_only_looked_up() {
    for memory in [NEW, UNKNOWN, ACCEPTED] {
        for seen in [Seen::Unclear, Seen::Answered(OTHERWISE)] {
            let ruling = rule(memory, seen);
            assert_eq!(row(ruling), (Class::Unknown, Status::Unknown, Next::LookUp, None));
            assert!(ruling.memory.was_unknown);
            assert_eq!(ruling.reason, Some(Reason::PayoutOutcomeUnknown));
        }
    }
    let conversion = OperationKind::Conversion;
    let ruling = classify(conversion, NEW, Seen::Unclear, Window::Open, Sends::Allowed);
    assert_eq!(ruling.reason, Some(Reason::ConversionOutcomeUnknown));
}

#[test]
fn the_word_of_a_look_up_counts() {
    let refused = Seen::Found(Answer::Refused(REFUSAL));
    for memory in [NEW, UNKNOWN, ACCEPTED] {
        let news = Some(News::Refused(REFUSAL));
        assert_eq!(row(rule(memory, refused)), (Class::Refused, Status::Refused, Next::Nothing, news));
        let otherwise = row(rule(memory, Seen::Found(OTHERWISE)));
        assert_eq!(otherwise, (Class::Unknown, Status::Unknown, Next::LookUp, Some(News::Unclear)));
    }
}

#[test]
fn a_look_up_that_fails_teaches_nothing() {
    for memory in [NEW, UNKNOWN, ACCEPTED] {
        let ruling = rule(memory, Seen::LookupFailed);
        assert_eq!(row(ruling), (NothingLearnt, memory.status, Next::LookUp, None));
        assert_eq!(ruling.memory, memory);
    }
    // Nothing can be sent any more and nobody answers: a person with evidence must be able to act.
    for memory in [UNKNOWN, ACCEPTED] {
        let ruling = after_window(memory, Seen::LookupFailed);
        assert_eq!(row(ruling), (Class::Unknown, Status::Unknown, Next::LookUp, Some(News::Unclear)));
    }
    assert_eq!(after_window(NEW, Seen::LookupFailed).news, None);
}

#[test]
fn absent_within_the_window_is_sent_again_under_the_same_key() {
    for memory in [NEW, UNKNOWN] {
        let ruling = rule(memory, Seen::Absent);
        assert_eq!(row(ruling), (Absent, memory.status, Next::Send, None));
        assert_eq!(ruling.memory, memory, "absent is not proof");
        let stopped = classify(OperationKind::Payout, memory, Seen::Absent, Window::Open, Sends::Stopped);
        assert_eq!(row(stopped), (Absent, memory.status, Next::LookUp, None), "not under review");
    }
}

#[test]
fn absent_after_the_window_is_voided_and_never_sent() {
    for memory in [NEW, UNKNOWN] {
        for sends in [Sends::Allowed, Sends::Stopped] {
            let ruling = classify(OperationKind::Payout, memory, Seen::Absent, Window::Over, sends);
            assert_eq!(row(ruling), (Absent, memory.status, Next::Void, None));
        }
    }
}

#[test]
fn absent_of_what_was_accepted_is_unknown_and_never_sent_again() {
    let unknown_after_accepted = Memory { was_accepted: true, ..UNKNOWN };
    for memory in [ACCEPTED, unknown_after_accepted] {
        for window in [Window::Open, Window::Over] {
            let ruling = classify(OperationKind::Payout, memory, Seen::Absent, window, Sends::Allowed);
            assert_eq!(row(ruling), (Class::Unknown, Status::Unknown, Next::LookUp, Some(News::Unclear)));
        }
    }
}

#[test]
fn a_void_refuses_what_was_not_begun() {
    for memory in [NEW, UNKNOWN] {
        let ruling = after_window(memory, Seen::Voided(Answer::Refused(REFUSAL)));
        let news = Some(News::Refused(REFUSAL));
        assert_eq!(row(ruling), (Class::Refused, Status::Refused, Next::Nothing, news));
    }
    let forgotten = after_window(ACCEPTED, Seen::Voided(Answer::Refused(REFUSAL)));
    assert_eq!(row(forgotten), (Class::Unknown, Status::Unknown, Next::LookUp, Some(News::Unclear)));
}

#[test]
fn any_other_answer_to_a_void_needs_a_person() {
    let unclear = Some(News::Unclear);
    let pending = after_window(UNKNOWN, Seen::Voided(Answer::Pending));
    assert_eq!(row(pending), (Accepted, Status::Accepted, Next::LookUp, unclear));
    for seen in [Seen::VoidFailed, Seen::Voided(OTHERWISE)] {
        let ruling = after_window(UNKNOWN, seen);
        assert_eq!(row(ruling), (Class::Unknown, Status::Unknown, Next::LookUp, unclear), "{seen:?}");
    }
}

#[test]
fn unknown_is_sticky() {
    for memory in [UNKNOWN, Memory { was_unknown: true, ..ACCEPTED }] {
        let refused = rule(memory, Seen::Answered(Answer::Refused(REFUSAL)));
        assert_eq!(row(refused), (Class::Unknown, Status::Unknown, Next::LookUp, None));
        for seen in [Seen::NotSent, Seen::TurnedAway(Blocked::RailInactive)] {
            let ruling = rule(memory, seen);
            assert_eq!((ruling.memory, ruling.next), (memory, Next::LookUp), "{seen:?}");
        }
    }
    // What was accepted is not refused by the answer to another send either.
    let accepted = rule(ACCEPTED, Seen::Answered(Answer::Refused(REFUSAL)));
    assert_eq!(row(accepted), (Class::Unknown, Status::Unknown, Next::LookUp, None));
}

#[test]
fn money_that_went_and_came_back_is_returned() {
    for memory in [NEW, UNKNOWN, ACCEPTED, SUCCEEDED] {
        let ruling = rule(memory, Seen::Found(Answer::Returned));
        let news = Some(News::Returned);
        assert_eq!(row(ruling), (Class::Returned, Status::Returned, Next::Nothing, news));
    }
    let conversion = |memory| {
        let seen = Seen::Found(Answer::Returned);
        classify(OperationKind::Conversion, memory, seen, Window::Open, Sends::Allowed)
    };
    let unclear = (Class::Unknown, Status::Unknown, Next::LookUp, Some(News::Unclear));
    assert_eq!(row(conversion(UNKNOWN)), unclear, "a conversion does not come back");
    let done = conversion(SUCCEEDED);
    assert_eq!(row(done), (NothingLearnt, Status::Succeeded, Next::Nothing, None));
    assert_eq!(done.alarm, Some(Alarm::Contradiction));
}

#[test]
fn what_moves_after_the_payment_went_on_is_late() {
    for memory in [REFUSED, GIVEN_UP] {
        for seen in [Seen::Answered(DONE), Seen::Found(DONE), Seen::Voided(DONE)] {
            let ruling = rule(memory, seen);
            let news = Some(News::LateSucceeded);
            assert_eq!(row(ruling), (Done, Status::Succeeded, Next::Nothing, news), "{memory:?} {seen:?}");
            assert!(ruling.memory.is_late);
        }
        for (answer, status) in [
            (Answer::Pending, Status::Accepted),
            (OTHERWISE, Status::Unknown),
            (Answer::Returned, Status::Returned),
        ] {
            let ruling = rule(memory, Seen::Found(answer));
            assert_eq!((ruling.memory.status, ruling.news), (status, Some(News::Revived)), "{answer:?}");
            assert!(ruling.memory.is_late);
        }
    }
}

#[test]
fn what_is_late_is_never_sent_again() {
    let revived = rule(GIVEN_UP, Seen::Found(Answer::Pending)).memory;
    for window in [Window::Open, Window::Over] {
        for seen in [Seen::Absent, Seen::NotSent, Seen::TurnedAway(Blocked::RailInactive)] {
            let ruling = classify(OperationKind::Payout, revived, seen, window, Sends::Allowed);
            assert_eq!((ruling.next, ruling.news), (Next::LookUp, None), "{seen:?}");
        }
    }
    assert_eq!(rule(revived, Seen::Found(DONE)).news, Some(News::LateSucceeded));
    let refused = rule(revived, Seen::Found(Answer::Refused(REFUSAL)));
    assert_eq!((refused.memory.status, refused.news), (Status::Refused, None));
    let moved = rule(revived, Seen::Found(DONE)).memory;
    let back = rule(moved, Seen::Found(Answer::Returned));
    assert_eq!((back.memory.status, back.news), (Status::Returned, Some(News::LateReturned)));
}

#[test]
fn the_providers_refusal_replaces_a_persons_word() {
    for seen in [Seen::Found(Answer::Refused(REFUSAL)), Seen::Voided(Answer::Refused(REFUSAL))] {
        let ruling = rule(GIVEN_UP, seen);
        assert_eq!(row(ruling), (Class::Refused, Status::Refused, Next::Nothing, None));
    }
    let answered = rule(GIVEN_UP, Seen::Answered(Answer::Refused(REFUSAL)));
    assert_eq!(row(answered), (NothingLearnt, Status::GivenUp, Next::LookUp, None), "unknown is sticky");
}

#[test]
fn what_was_given_up_is_still_looked_up_and_what_was_refused_is_not() {
    for seen in [Seen::LookupFailed, Seen::Absent, Seen::Unclear, Seen::Conflict, Seen::VoidFailed] {
        assert_eq!(row(rule(GIVEN_UP, seen)), (NothingLearnt, Status::GivenUp, Next::LookUp, None));
        assert_eq!(row(rule(REFUSED, seen)), (NothingLearnt, Status::Refused, Next::Nothing, None));
    }
}

#[test]
fn a_provider_that_takes_back_success_is_an_alarm() {
    for answer in [Answer::Refused(REFUSAL), OTHERWISE] {
        let ruling = rule(SUCCEEDED, Seen::Found(answer));
        assert_eq!(row(ruling), (NothingLearnt, Status::Succeeded, Next::Nothing, None));
        assert_eq!(ruling.alarm, Some(Alarm::Contradiction));
    }
    assert_eq!(rule(SUCCEEDED, Seen::Absent).alarm, None);
}

fn answers() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Pending),
        Just(DONE),
        Just(OTHERWISE),
        Just(Answer::Refused(REFUSAL)),
        Just(Answer::Refused(Refusal { code: RefusalCode::ConversionRefused, quote_expired: true })),
        Just(Answer::Returned),
    ]
}

fn sights() -> impl Strategy<Value = Seen> {
    prop_oneof![
        Just(Seen::NotSent),
        prop::sample::select(Blocked::ALL).prop_map(Seen::TurnedAway),
        any::<bool>().prop_map(|signed| Seen::Unauthorised { signed }),
        Just(Seen::Conflict),
        answers().prop_map(Seen::Answered),
        Just(Seen::Unclear),
        answers().prop_map(Seen::Found),
        Just(Seen::LookupFailed),
        Just(Seen::Absent),
        answers().prop_map(Seen::Voided),
        Just(Seen::VoidFailed),
    ]
}

type Sight = (Seen, Window, Sends);

fn stories() -> impl Strategy<Value = (OperationKind, Vec<Sight>)> {
    let window = prop::sample::select(vec![Window::Open, Window::Over]);
    let sends = prop::sample::select(vec![Sends::Allowed, Sends::Stopped]);
    let story = prop::collection::vec((sights(), window, sends), 1..30);
    (prop::sample::select(OperationKind::ALL), story)
}

fn is_lookup_or_void(seen: Seen) -> bool {
    matches!(seen, Seen::Found(_) | Seen::LookupFailed | Seen::Absent | Seen::Voided(_) | Seen::VoidFailed)
}

fn says(seen: Seen, answer: Answer) -> bool {
    matches!(seen, Seen::Answered(said) | Seen::Found(said) | Seen::Voided(said) if said == answer)
}

proptest! {
    #[test]
    fn over_any_story_unknown_is_sticky((kind, story) in stories()) {
        let mut memory = NEW;
        let mut was_unknown = false;
        for (seen, window, sends) in story {
            let ruling = classify(kind, memory, seen, window, sends);
            let is_refused_now = memory.status != Status::Refused && ruling.memory.status == Status::Refused;
            if was_unknown && is_refused_now {
                prop_assert!(is_lookup_or_void(seen), "{memory:?} {seen:?} {ruling:?}");
            }
            if was_unknown && ruling.next == Next::Send {
                prop_assert_eq!((seen, window), (Seen::Absent, Window::Open));
            }
            prop_assert!(ruling.memory.was_unknown >= memory.was_unknown);
            prop_assert!(ruling.memory.was_accepted >= memory.was_accepted);
            prop_assert!(ruling.memory.is_late >= memory.is_late);
            was_unknown |= ruling.memory.status == Status::Unknown || seen == Seen::Unclear;
            memory = ruling.memory;
        }
    }

    #[test]
    fn over_any_story_success_beats_every_other_status(
        (kind, story) in stories(),
        is_given_up in any::<bool>(),
    ) {
        let mut memory = if is_given_up { GIVEN_UP } else { NEW };
        let mut has_succeeded = false;
        for (seen, window, sends) in story {
            memory = classify(kind, memory, seen, window, sends).memory;
            has_succeeded |= says(seen, DONE) && memory.status != Status::Returned;
            if has_succeeded {
                let is_done = matches!(memory.status, Status::Succeeded | Status::Returned);
                prop_assert!(is_done, "{seen:?} {memory:?}");
            }
        }
    }

    #[test]
    fn over_any_story_nothing_is_sent_that_may_have_been_executed((kind, story) in stories()) {
        let mut memory = NEW;
        for (seen, window, sends) in story {
            let ruling = classify(kind, memory, seen, window, sends);
            if ruling.next == Next::Send {
                prop_assert_eq!(sends, Sends::Allowed);
                prop_assert!(ruling.memory.status.is_open() && !ruling.memory.was_accepted);
                prop_assert!(!ruling.memory.is_late);
            }
            // Whatever is open is asked about again, and whatever is not hears no more than what is late.
            prop_assert!(!ruling.memory.status.is_open() || ruling.next != Next::Nothing);
            memory = ruling.memory;
        }
    }
}

/// People went on without it while it was under way: that it did something else is news, once.
#[test]
fn what_was_late_and_under_way_and_did_something_else_stops_the_payment_again() {
    let late = |status| Memory { status, is_late: true, was_accepted: true, ..Memory::NEW };
    let otherwise = Seen::Found(Answer::Succeeded(Judgement::Otherwise));
    for (kind, seen) in [
        (OperationKind::Payout, otherwise),
        (OperationKind::Conversion, otherwise),
        (OperationKind::Conversion, Seen::Found(Answer::Returned)),
    ] {
        let ruled = |status| classify(kind, late(status), seen, Window::Open, Sends::Allowed);
        let first = ruled(OperationStatus::Accepted);
        assert_eq!((first.news, first.memory.status), (Some(News::Revived), OperationStatus::Unknown));
        assert_eq!(ruled(OperationStatus::Unknown).news, None);
    }
}
