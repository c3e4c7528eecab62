//! Rules that keep money from being paid twice, and that no other test breaks on: what a pause stops, and
//! what a person's word needs. And who asks a provider what it can do, and how long for what was given up.

use std::time::Duration;

use settle_domain::ledger::Held;
use settle_domain::operation::OperationStatus;
use settle_domain::payment::{Act, Outcome, PaymentState, StateName};
use settle_domain::reason::{Blocked, Reason};
use settle_engine::case::Case;
use settle_engine::life::{Errands, errands};
use settle_provider::provider::Provider;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::desk::Lie;
use crate::notices::do_by_hand;
use crate::world::{World, at};

settle_testing::on_both_stores! {
    a_pause_stops_sends_and_no_look_ups,
    who_says_that_nothing_was_paid_makes_sure_of_it,
    what_its_provider_may_have_forgotten_is_voided_and_never_sent_again,
}

async fn a_pause_stops_sends_and_no_look_ups(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.go(payment).await;
    let station = world.means.providers.all().next().unwrap();
    station.pause(true);
    let later = world.receive(world.order("later", "USDC")).await.unwrap();
    let (sends, quotes) = (world.desk.sends(), world.desk.quotes());
    world.go(later).await;
    assert_eq!((world.desk.sends(), world.desk.quotes()), (sends, quotes), "nothing is sent");
    world.go_when_due(payment).await;
    assert_eq!(world.row(payment).await.standing.state, StateName::Completed, "the look-up found it");
    station.pause(false);
    world.go_when_due(later).await;
    assert_eq!(world.row(later).await.standing.state, StateName::Completed);
    assert_eq!(world.desk.executed(Asked::Payout).len(), 2);
}

/// The request lies in a queue somewhere: it arrives when the payment has been retried.
async fn who_says_that_nothing_was_paid_makes_sure_of_it(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Late]).await;
    world.go(payment).await;
    let first = world.operations(payment).await[1].operation_id;
    do_by_hand(&world, payment, Act::Resolve(Outcome::NotPaid)).await;
    do_by_hand(&world, payment, Act::Retry).await;
    world.go(payment).await;
    for _ in 0..3 {
        world.desk.look_up(first.0, at(0)).await;
    }
    world.assert_completed_once(payment).await;
}

/// The provider promises less than the settings allow, and the less counts. It promises nothing here: on
/// PostgreSQL the age is the server's to count, and no clock of a test moves it.
async fn what_its_provider_may_have_forgotten_is_voided_and_never_sent_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.promises(0);
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    let sends = world.desk.sends();
    let row = world.go_when_due(payment).await;
    assert_eq!((row.standing.state, row.standing.reason), (StateName::Failed, Some(Reason::PayoutRefused)));
    assert_eq!((world.desk.sends(), world.desk.voids()), (sends, 1));
    assert_eq!(world.desk.executed(Asked::Payout).len(), 0);
    world.assert_books().await;
}

/// A look-up within the window finds that the payout can be sent again; a pause keeps it until that is over.
/// On PostgreSQL its age is the server's to count.
#[tokio::test]
async fn what_waited_to_be_sent_again_is_not_sent_after_the_window() {
    let world = World::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    let station = world.means.providers.all().next().unwrap().clone();
    station.pause(true);
    let blocked = world.go_when_due(payment).await.standing.blocked;
    assert_eq!(blocked, Some(Blocked::ProviderUnavailable), "show names the pause");
    let (sends, look_ups) = (world.desk.sends(), world.desk.look_ups());
    world.clock.set(at(24 * 3_600));
    station.pause(false);
    let row = world.go(payment).await;
    assert_eq!((world.desk.sends(), world.desk.look_ups()), (sends, look_ups + 1), "it is asked about");
    assert_eq!((row.standing.state, world.desk.voids()), (StateName::Failed, 1));
}

/// Many lives begin at once with a provider of which nothing is known yet.
#[tokio::test]
async fn one_asks_what_a_provider_can_do_and_the_others_wait_for_it() {
    let world = World::new(settle_store_sqlite::testing::scratch().await).await;
    world.desk.slow();
    let station = world.means.providers.all().next().unwrap().clone();
    let asked = (0..20).map(|_| {
        let station = station.clone();
        tokio::spawn(async move { station.capabilities().await })
    });
    for answer in asked.collect::<Vec<_>>() {
        assert!(answer.await.unwrap().is_some());
    }
    assert_eq!(world.desk.questions(), 1);
}

/// What is done at two versions of a case whose last two operations are so many days old.
fn looks_at(case: &mut Case, ages: [u64; 2]) -> [Errands; 2] {
    for (tracked, days) in case.operations[1..].iter_mut().zip(ages) {
        tracked.age = Duration::from_hours(24 * days);
    }
    [2, 3].map(|version| {
        case.payment.version = version;
        errands(case)
    })
}

/// Two payouts that were given up, one after the other: an old one does not keep the engine from looking the
/// other up, and when both are old nobody asks any more.
#[tokio::test]
async fn what_was_given_up_is_looked_up_in_turn_and_for_thirty_days() {
    let world = World::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    let mut case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    case.payment.state = PaymentState::Failed(Held::Outgoing);
    case.operations.push(case.operations[1].clone());
    for tracked in &mut case.operations[1..] {
        tracked.operation.memory.status = OperationStatus::GivenUp;
    }
    let mut looks = |ages| looks_at(&mut case, ages);
    assert_eq!(looks([1, 1]), [Errands::LookUp(1), Errands::LookUp(2)]);
    assert_eq!(looks([31, 29]), [Errands::LookUp(2); 2]);
    assert_eq!(looks([31, 31]), [Errands::Nothing; 2]);
    case.operations[1].given_up_after = Some(Duration::from_hours(24 * 2));
    assert_eq!(looks_at(&mut case, [31, 31]), [Errands::LookUp(1); 2], "from when it was given up");
}
