//! One payment of a table of workflows: its node, its provider, and what must hold after each of its turns.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use settle_domain::ids::{OperationId, PaymentId};
use settle_domain::operation::OperationKind;
use settle_domain::payment::{Act, StateName};
use settle_domain::seams::{Clock, SeededEntropy};
use settle_engine::books;
use settle_engine::life::{Corridors, live};
use settle_engine::providers::{Providers, Station};
use settle_engine::writer::Writer;
use settle_outbox::Outbox;
use settle_outbox::wake::Wake;
use settle_provider::wire::OperationKind as Asked;

use super::ends::{End, Step};
use super::teller::{Bodies, Fate, Teller, Word};
use crate::desk::{Desk, Lie};
use crate::notices::do_by_hand;
use crate::world::World;

/// How often a payment that waits is taken on: enough for each to end or to stay under review.
pub(crate) const TURNS: usize = 6;

/// One payment in a world, with a provider and a node of its own.
pub(crate) struct Cell<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) bodies: Bodies,
    pub(crate) payment: PaymentId,
    pub(crate) story: String,
}

impl Cell<'_> {
    /// A payment of the world's merchant that comes to this step next, or has come in, with a provider that
    /// has done nothing else.
    pub(crate) async fn new(world: &mut World, step: Step, story: String) -> Cell<'_> {
        world.desk = Arc::new(Desk::default());
        let payment = world.receive(world.order(&story, "USDC")).await.unwrap();
        let mut cell = Cell { world, bodies: Bodies::default(), payment, story };
        cell.starts(Fate::new(None), None);
        if step == Step::Refund {
            cell.world.desk.lies(Asked::Payout, &[Lie::Refuse]);
            assert_eq!(cell.world.go(payment).await.standing.state, StateName::Failed, "{}", cell.story);
            do_by_hand(cell.world, payment, Act::Refund).await;
        }
        cell
    }

    /// Another node takes over, to which this happens; the provider says this to it.
    pub(crate) fn starts(&mut self, fate: Arc<Fate>, word: Option<Word>) {
        let own = &mut *self.world;
        let outbox = Outbox::of_service(
            own.store.share(),
            Wake::default(),
            own.clock.clone(),
            Arc::new(SeededEntropy::new(20_261_117)),
        );
        let outbox = outbox.with_faults(fate.clone());
        let teller =
            Teller { desk: own.desk.clone(), bodies: self.bodies.clone(), fate, word: Mutex::new(word) };
        let day = Duration::from_hours(24);
        let station = Station::new("desk".parse().unwrap(), Arc::new(teller), own.clock.clone(), day);
        own.means.providers = Providers::new([station]);
        own.means.corridors = Corridors::default();
        own.means.writer = Writer::start(outbox, own.wake.clone(), own.clock.clone());
    }

    /// One turn, after which everything is in order.
    pub(crate) async fn turn(&self, is_first: bool) {
        if is_first {
            self.world.go(self.payment).await;
        } else {
            self.world.go_when_due(self.payment).await;
        }
        self.is_in_order().await;
    }

    pub(crate) async fn is_in_order(&self) {
        let (row, story) = (self.world.row(self.payment).await, &self.story);
        let standing = &row.standing;
        let is_named = match standing.state {
            StateName::Completed | StateName::Refunded => standing.due_at.is_none(),
            StateName::Failed => standing.reason.is_some() && standing.due_at.is_none(),
            StateName::NeedsReview => standing.reason.is_some() && standing.due_at.is_some(),
            // What is due at once does not wait.
            _ if standing.due_at == Some(self.world.clock.now()) => true,
            _ => standing.due_at.is_some() && (standing.reason.is_some() || standing.blocked.is_some()),
        };
        assert!(is_named, "{story}: {standing:?}");
        for kind in [Asked::Conversion, Asked::Payout, Asked::Refund] {
            let executed = self.world.desk.executed(kind);
            assert!(executed.len() <= 1, "{story}: {kind:?} {executed:?}");
        }
        let checked =
            books::check_merchant(&*self.world.store, &*self.world.clock, self.world.merchant).await;
        assert_eq!(checked.unwrap().disagreements, [], "{story}");
    }

    /// Takes the payment on until it has ended, or often enough to see that it stays as it is.
    pub(crate) async fn settles(&self) {
        for turn in 0..TURNS {
            let due_at = self.world.row(self.payment).await.standing.due_at;
            if turn == 0 || due_at.is_some() {
                self.turn(turn == 0).await;
            }
        }
    }

    pub(crate) async fn assert_end(&self, expected: End) {
        let (world, story) = (&self.world, &self.story);
        let standing = world.row(self.payment).await.standing;
        let executed =
            [Asked::Conversion, Asked::Payout, Asked::Refund].map(|kind| world.desk.executed(kind));
        let end = End {
            state: standing.state,
            reason: standing.reason,
            executed: executed.each_ref().map(Vec::len),
        };
        assert_eq!(end, expected, "{story}: {standing:?}");
        // Whatever was done was done under a key of this payment: of the first attempt, or the second where a
        // quote had expired.
        for (kind, done) in OperationKind::ALL.iter().zip(executed) {
            let keys = [1, 2].map(|attempt| OperationId::of(self.payment, *kind, attempt).0);
            assert!(done.iter().all(|id| keys.contains(id)), "{story}: {kind} {done:?}");
        }
        let settled = usize::from(expected.state == StateName::Completed);
        assert_eq!(world.settled().await, settled, "{story}");
    }

    /// What has reached the provider: each operation once, and nothing was sent to it that it had.
    pub(crate) fn assert_sent_once(&self, step: Step) {
        let sends = if step == Step::Refund { 3 } else { 2 };
        assert_eq!(self.world.desk.sends(), sends, "{}", self.story);
    }

    /// Takes the payment on until the node dies.
    pub(crate) async fn lives_until(&self, fate: &Fate) {
        let world = &self.world;
        let case = world.means.read(world.merchant, self.payment).await.unwrap().unwrap();
        tokio::select! {
            biased;
            () = fate.death() => {}
            lived = live(&world.means, case, world.lease()) => panic!("{}: {lived:?}", self.story),
        }
    }
}
