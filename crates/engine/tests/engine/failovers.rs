//! Commits that a fail-over lost: the provider has seen what followed from them, and the database is again as
//! it was before. What is asked anew goes out under the same key, so that nothing is done twice.
//!
//! The database before a commit is a copy of its file. Every commit of a payment is lost once for every place
//! at which the node can die after it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use settle_domain::ids::{OperationId, PaymentId};
use settle_domain::operation::OperationKind;
use settle_domain::payment::{Act, StateName};
use settle_domain::reason::Reason;
use settle_domain::seams::Clock;
use settle_engine::life::live;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::{Backdoor, ScratchStore, fixtures};
use settle_store::{Duty, Presence};
use settle_store_sqlite::SqliteStore;
use tempfile::TempDir;

use crate::desk::{Desk, Lie};
use crate::notices::do_by_hand;
use crate::workflows::cell::Cell;
use crate::workflows::ends::{End, Step};
use crate::workflows::teller::{Bodies, Fate, Meanwhile};
use crate::workflows::{PAID, REFUNDED};
use crate::world::{World, lease};

const FILE: &str = "settle.db";

/// Nobody goes around the store.
struct NoBackdoor;

#[async_trait]
impl Backdoor for NoBackdoor {
    async fn execute(&self, _sql: &'static str) {}
}

fn scratch_in(folder: &Path) -> ScratchStore {
    let store = SqliteStore::new(&format!("sqlite://{}", folder.join(FILE).display())).unwrap();
    ScratchStore::new(Arc::new(store), NoBackdoor)
}

/// Copies the database as a crash would leave it: the file, and the log of what was committed since.
fn copy(from: &Path, to: &Path) {
    std::fs::copy(from.join(FILE), to.join(FILE)).unwrap();
    let log = format!("{FILE}-wal");
    if from.join(&log).exists() {
        std::fs::copy(from.join(&log), to.join(&log)).unwrap();
    }
}

/// The database before a commit, and whoever serves it now.
struct Survivor {
    world: World,
    _presence: Box<dyn Presence>,
}

impl Survivor {
    /// A node that finds this database, with the provider as it is now.
    async fn of(folder: &Path, lost: &World) -> Survivor {
        let mut world = World::unserved(scratch_in(folder)).await;
        world.merchant = lost.merchant;
        world.desk = lost.desk.clone();
        world.clock.set(lost.clock.now());
        let keeper = fixtures::unique_keeper_id();
        let presence = world.store.presence(keeper, Duty::Engine).await.unwrap().expect("nobody else sends");
        world.lease = Some(lease(&*world.store, keeper, world.merchant).await);
        Survivor { world, _presence: presence }
    }
}

/// How the price has changed when it is asked for again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Price {
    Same,
    /// What was bought before is still enough.
    Worse,
    /// What was bought before is not enough.
    Better,
}

impl Price {
    fn changes(self, desk: &Desk) {
        match self {
            Price::Same => {}
            Price::Worse => desk.buys("184.100000", "5.431830526888"),
            Price::Better => desk.buys("188.000000", "5.319148936171"),
        }
    }

    /// Where a payment ends that is quoted anew, after it was converted and perhaps paid out. Another body
    /// under a key is a conflict, and a look-up tells what was done under it.
    fn end(self, executed: [usize; 3]) -> End {
        let reviewed = |reason| End { state: StateName::NeedsReview, reason: Some(reason), executed };
        match (self, executed) {
            (Price::Better, [1, ..]) => reviewed(Reason::ConversionOutcomeUnknown),
            (Price::Worse, [1, 1, _]) => reviewed(Reason::PayoutOutcomeUnknown),
            (Price::Same | Price::Worse | Price::Better, _) => Step::Quote.done(),
        }
    }
}

fn executed(desk: &Desk) -> [usize; 3] {
    [Asked::Conversion, Asked::Payout, Asked::Refund].map(|kind| desk.executed(kind).len())
}

/// The keys that went out: of each kind the first one.
fn assert_keys(bodies: &Bodies, payment: PaymentId, story: &str) {
    let kinds = [OperationKind::Conversion, OperationKind::Payout, OperationKind::Refund];
    let keys = kinds.map(|kind| OperationId::of(payment, kind, 1).0);
    for id in bodies.lock().unwrap().keys() {
        assert!(keys.contains(id), "{story}: {id} is another key");
    }
}

/// Runs a payment until its node dies, and gives the database as it was before a commit.
async fn lose(cell: &mut Cell<'_>, from: &Path, lost: usize, dies: usize, way: &[&str]) -> TempDir {
    let kept = tempfile::tempdir().unwrap();
    let (from, to): (PathBuf, PathBuf) = (from.to_owned(), kept.path().to_owned());
    let before: Meanwhile = Box::new(move || copy(&from, &to));
    assert_eq!(way[lost], "before a commit");
    let fate = Fate::dies(dies, Some((lost, before)));
    cell.starts(fate.clone(), None);
    cell.lives_until(&fate).await;
    assert_eq!(fate.lived(), way[..=dies], "{}", cell.story);
    kept
}

/// The payment goes on where the database says that it is, and ends as it must.
async fn goes_on(mut cell: Cell<'_>, price: Price, expected: End) {
    cell.starts(Fate::new(None), None);
    price.changes(&cell.world.desk);
    cell.settles().await;
    assert_keys(&cell.bodies, cell.payment, &cell.story);
    cell.assert_end(expected).await;
}

/// Each commit of a payment, and each place at which a node dies after it.
fn losses(way: &'static [&'static str]) -> impl Iterator<Item = (usize, usize)> {
    let commits = way.iter().enumerate().filter(|(_, what)| **what == "before a commit");
    commits.flat_map(|(lost, _)| (lost + 1..way.len()).map(move |dies| (lost, dies)))
}

#[tokio::test]
async fn a_lost_commit_of_a_payment_gives_the_same_key_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = World::new(scratch_in(folder.path())).await;
    let quoted = PAID.iter().position(|what| *what == "before a commit").unwrap();
    for (lost, dies) in losses(&PAID) {
        let prices: &[Price] =
            if lost == quoted { &[Price::Same, Price::Worse, Price::Better] } else { &[Price::Same] };
        for price in prices {
            let story = format!("commit {lost} is lost, the node dies {}, {dies}: {price:?}", PAID[dies]);
            first.next_merchant().await;
            let mut cell = Cell::new(&mut first, Step::Quote, story).await;
            let kept = lose(&mut cell, folder.path(), lost, dies, &PAID).await;
            let (payment, bodies, story) = (cell.payment, cell.bodies.clone(), cell.story.clone());
            let expected = if lost == quoted { price.end(executed(&first.desk)) } else { Step::Quote.done() };
            let mut survivor = Survivor::of(kept.path(), &first).await;
            let cell = Cell { world: &mut survivor.world, bodies, payment, story };
            goes_on(cell, *price, expected).await;
        }
    }
}

#[tokio::test]
async fn a_lost_commit_of_a_refund_gives_the_same_key_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = World::new(scratch_in(folder.path())).await;
    for (lost, dies) in losses(&REFUNDED) {
        let story = format!("commit {lost} is lost, the node dies {}, {dies}", REFUNDED[dies]);
        first.next_merchant().await;
        let mut cell = Cell::new(&mut first, Step::Refund, story).await;
        let kept = lose(&mut cell, folder.path(), lost, dies, &REFUNDED).await;
        let (payment, bodies, story) = (cell.payment, cell.bodies.clone(), cell.story.clone());
        let mut survivor = Survivor::of(kept.path(), &first).await;
        let cell = Cell { world: &mut survivor.world, bodies, payment, story };
        goes_on(cell, Price::Same, Step::Refund.done()).await;
    }
}

/// Nobody knows of the pay-in any more: whoever posted it posts it again, and it is the same payment.
#[tokio::test]
async fn a_lost_pay_in_is_posted_again_and_paid_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = World::new(scratch_in(folder.path())).await;
    for price in [Price::Same, Price::Worse, Price::Better] {
        first.next_merchant().await;
        let kept = tempfile::tempdir().unwrap();
        copy(folder.path(), kept.path());
        let cell = Cell::new(&mut first, Step::Quote, format!("a lost pay-in: {price:?}")).await;
        cell.settles().await;
        cell.assert_end(Step::Quote.done()).await;
        let (payment, bodies, story) = (cell.payment, cell.bodies.clone(), cell.story.clone());
        let mut survivor = Survivor::of(kept.path(), &first).await;
        let again = survivor.world.receive(survivor.world.order(&story, "USDC")).await.unwrap();
        assert_eq!(again, payment, "{story}");
        let cell = Cell { world: &mut survivor.world, bodies, payment, story };
        goes_on(cell, price, price.end(executed(&first.desk))).await;
    }
}

/// The payout was refused, an operator has it refunded, and nobody knows of that any more: whoever does it
/// again does it under the same key.
#[tokio::test]
async fn a_lost_act_is_done_again_and_refunds_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = World::new(scratch_in(folder.path())).await;
    first.next_merchant().await;
    let mut cell = Cell::new(&mut first, Step::Quote, "a lost refund".to_owned()).await;
    cell.world.desk.lies(Asked::Payout, &[Lie::Refuse]);
    cell.starts(Fate::new(None), None);
    cell.settles().await;
    let kept = tempfile::tempdir().unwrap();
    copy(folder.path(), kept.path());
    let (payment, bodies, story) = (cell.payment, cell.bodies.clone(), cell.story.clone());
    do_by_hand(&first, payment, Act::Refund).await;
    let case = first.means.read(first.merchant, payment).await.unwrap().unwrap();
    live(&first.means, case, first.lease()).await.unwrap();
    assert_eq!(first.row(payment).await.standing.state, StateName::Refunded);
    let mut survivor = Survivor::of(kept.path(), &first).await;
    assert_eq!(survivor.world.row(payment).await.standing.state, StateName::Failed, "nobody knows");
    let mut cell = Cell { world: &mut survivor.world, bodies, payment, story };
    cell.starts(Fate::new(None), None);
    do_by_hand(cell.world, payment, Act::Refund).await;
    goes_on(cell, Price::Same, Step::Refund.done()).await;
}
