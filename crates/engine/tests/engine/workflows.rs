//! Every step of a payment, whatever becomes of it: each class of answer to a request and to a look-up, a
//! node that dies before and after each of its commits and calls, and what is done or heard twice.
//!
//! After every turn the books agree, and the payment has ended or waits for a reason with a name. Nothing is
//! ever done twice.

use settle_domain::operation::{Answer, Judgement, OperationKind, Seen, Window};
use settle_engine::advance::{Advance, Told};
use settle_engine::life::live;
use settle_store::conformance::ScratchStore;

use crate::world::World;

pub(crate) mod cell;
pub(crate) mod ends;
pub(crate) mod teller;

use cell::{Cell, TURNS};
use ends::{Step, after_answer, after_look_up, wait_after};
use teller::{Call, Fate, Mishap, Says, Word};

settle_testing::on_both_stores! {
    whatever_a_provider_says_to_a_question_for_a_quote,
    whatever_a_provider_says_to_a_conversion,
    whatever_a_provider_says_to_a_payout,
    whatever_a_provider_says_to_a_refund,
    whatever_a_provider_says_of_a_conversion,
    whatever_a_provider_says_of_a_payout,
    whatever_a_provider_says_of_a_refund,
    wherever_a_node_dies,
    whichever_commit_is_not_answered_or_fails,
    whatever_step_is_done_twice,
    whatever_answer_is_heard_twice,
}

/// What a provider may say to a step's request: each payment ends where it must.
async fn whatever_is_said_to(step: Step, scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    for says in Says::ALL {
        for executes in [false, true] {
            let Some(expected) = after_answer(step, says, executes) else { continue };
            let story = format!("{step:?}: {says:?}, executed {executes}");
            world.next_merchant().await;
            let mut cell = Cell::new(&mut world, step, story).await;
            cell.starts(Fate::new(None), Some(Word { to: step.call(), says, executes }));
            cell.turn(true).await;
            let standing = cell.world.row(cell.payment).await.standing;
            match wait_after(step, says) {
                Some(waits) => assert_eq!((standing.reason, standing.blocked), waits, "{}", cell.story),
                None => assert_eq!(standing.state, expected.state, "{}", cell.story),
            }
            for _ in 1..TURNS {
                if cell.world.row(cell.payment).await.standing.due_at.is_some() {
                    cell.turn(false).await;
                }
            }
            cell.assert_end(expected).await;
        }
    }
}

async fn whatever_a_provider_says_to_a_question_for_a_quote(scratch: ScratchStore) {
    whatever_is_said_to(Step::Quote, scratch).await;
}

async fn whatever_a_provider_says_to_a_conversion(scratch: ScratchStore) {
    whatever_is_said_to(Step::Conversion, scratch).await;
}

async fn whatever_a_provider_says_to_a_payout(scratch: ScratchStore) {
    whatever_is_said_to(Step::Payout, scratch).await;
}

async fn whatever_a_provider_says_to_a_refund(scratch: ScratchStore) {
    whatever_is_said_to(Step::Refund, scratch).await;
}

/// The request gets no answer, and the first look-up gets this one.
async fn whatever_is_said_of(step: Step, scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let kind = step.asked().expect("quotes are not looked up");
    for says in Says::ALL {
        for executes in [false, true] {
            let Some(expected) = after_look_up(step, says, executes) else { continue };
            let story = format!("{step:?}, looked up: {says:?}, executed {executes}");
            world.next_merchant().await;
            let mut cell = Cell::new(&mut world, step, story).await;
            let lost = Word { to: step.call(), says: Says::Timeout, executes };
            cell.starts(Fate::new(None), Some(lost));
            cell.turn(true).await;
            let unknown = (step.kind().map(OperationKind::outcome_unknown), None);
            let standing = cell.world.row(cell.payment).await.standing;
            assert_eq!((standing.reason, standing.blocked), unknown, "{}", cell.story);
            cell.starts(Fate::new(None), Some(Word { to: Call::LookUp(kind), says, executes }));
            for _ in 0..TURNS {
                if cell.world.row(cell.payment).await.standing.due_at.is_some() {
                    cell.turn(false).await;
                }
            }
            cell.assert_end(expected).await;
        }
    }
}

async fn whatever_a_provider_says_of_a_conversion(scratch: ScratchStore) {
    whatever_is_said_of(Step::Conversion, scratch).await;
}

async fn whatever_a_provider_says_of_a_payout(scratch: ScratchStore) {
    whatever_is_said_of(Step::Payout, scratch).await;
}

async fn whatever_a_provider_says_of_a_refund(scratch: ScratchStore) {
    whatever_is_said_of(Step::Refund, scratch).await;
}

/// What a node lives through that takes a payment from its pay-in to its end.
pub(crate) const PAID: [&str; 14] = [
    "before it says what it can do",
    "after it says what it can do",
    "before a quote",
    "after a quote",
    "before a commit",
    "after a commit",
    "before a conversion",
    "after a conversion",
    "before a commit",
    "after a commit",
    "before a payout",
    "after a payout",
    "before a commit",
    "after a commit",
];

/// And one that takes on what an operator has refunded.
pub(crate) const REFUNDED: [&str; 8] = [
    "before it says what it can do",
    "after it says what it can do",
    "before a commit",
    "after a commit",
    "before a refund",
    "after a refund",
    "before a commit",
    "after a commit",
];

/// The two ways of a payment, each with all that a node lives through.
const WAYS: [(Step, &[&str]); 2] = [(Step::Quote, &PAID), (Step::Refund, &REFUNDED)];

/// A node dies before or after each of its commits and calls, and another one goes on.
async fn wherever_a_node_dies(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    for (step, way) in WAYS {
        for (at, what) in way.iter().enumerate() {
            let story = format!("{step:?}: a node dies {what}, number {at}");
            world.next_merchant().await;
            let mut cell = Cell::new(&mut world, step, story).await;
            let fate = Fate::new(Some((at, Mishap::Dies)));
            cell.starts(fate.clone(), None);
            cell.lives_until(&fate).await;
            assert_eq!(fate.lived(), way[..=at], "{}", cell.story);
            cell.starts(Fate::new(None), None);
            cell.settles().await;
            cell.assert_sent_once(step);
            cell.assert_end(step.done()).await;
        }
    }
}

/// The node goes on by itself: it writes the same again, or what follows from what it finds.
async fn whichever_commit_is_not_answered_or_fails(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    for (step, way) in WAYS {
        for (at, what) in way.iter().enumerate() {
            let mishap = match *what {
                "before a commit" => Mishap::Fails,
                "after a commit" => Mishap::Unanswered,
                _ => continue,
            };
            let story = format!("{step:?}: {mishap:?}, number {at}");
            world.next_merchant().await;
            let mut cell = Cell::new(&mut world, step, story).await;
            let fate = Fate::new(Some((at, mishap)));
            cell.starts(fate.clone(), None);
            cell.settles().await;
            assert!(fate.lived().len() > at, "{}", cell.story);
            cell.assert_sent_once(step);
            cell.assert_end(step.done()).await;
        }
    }
}

/// Two nodes take on the same payment as they saw it, one after the other and both at once.
async fn whatever_step_is_done_twice(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    for step in Step::ALL {
        for is_at_once in [false, true] {
            let story = format!("{step:?} twice, at once {is_at_once}");
            world.next_merchant().await;
            let mut cell = Cell::new(&mut world, step, story).await;
            let not_yet = Word { to: step.call(), says: Says::RailInactive, executes: false };
            cell.starts(Fate::new(None), Some(not_yet));
            cell.turn(true).await;
            let world = &cell.world;
            world.clock.set(world.row(cell.payment).await.standing.due_at.unwrap());
            let case = world.means.read(world.merchant, cell.payment).await.unwrap().unwrap();
            let (one, other) = if is_at_once {
                let (one, other) = (case.clone(), case);
                tokio::join!(live(&world.means, one, world.lease()), live(&world.means, other, world.lease()))
            } else {
                let one = live(&world.means, case.clone(), world.lease()).await;
                (one, live(&world.means, case, world.lease()).await)
            };
            assert!(one.is_ok() && other.is_ok(), "{}: {one:?} {other:?}", cell.story);
            cell.is_in_order().await;
            cell.settles().await;
            cell.assert_sent_once(step);
            cell.assert_end(step.done()).await;
        }
    }
}

/// What was heard of each operation is heard again when its payment has ended.
async fn whatever_answer_is_heard_twice(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    for (step, _) in WAYS {
        world.next_merchant().await;
        let cell = Cell::new(&mut world, step, format!("{step:?}, heard twice")).await;
        cell.settles().await;
        cell.assert_end(step.done()).await;
        let done = Answer::Succeeded(Judgement::AsAsked);
        for kind in [step, Step::Conversion].into_iter().filter_map(Step::kind).chain([OperationKind::Payout])
        {
            for seen in [Seen::Answered(done), Seen::Found(done), Seen::Unclear, Seen::Absent] {
                let (world, story) = (&cell.world, format!("{}: {kind} {seen:?}", cell.story));
                let case = world.means.read(world.merchant, cell.payment).await.unwrap().unwrap();
                let is_kind = |row: &settle_engine::case::Tracked| row.operation.request.kind() == kind;
                let place = case.operations.iter().position(is_kind).unwrap();
                // The payout that was refused before a refund was not done, and nobody says that it was.
                if case.operations[place].operation.memory.status.is_closed() {
                    continue;
                }
                let told = Told {
                    window: Window::Open,
                    corridor: None,
                    instance: None,
                    may_send: true,
                    awaits_hint: true,
                    waits: world.means.waits,
                };
                let now = world.means.clock.now();
                let again = Advance::seen(case, place, seen, None, &told, now).unwrap();
                world.writer.write(again, world.lease).await.unwrap();
                cell.settles().await;
                assert_eq!(world.row(cell.payment).await.standing.due_at, None, "{story}");
                cell.assert_end(step.done()).await;
            }
        }
    }
}
