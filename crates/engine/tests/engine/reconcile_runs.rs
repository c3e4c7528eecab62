//! Runs of a reconciliation that take long, fail or are cut off: what they find is true all the same.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use settle_domain::alert::AlertKind;
use settle_domain::ids::{PaymentId, SettlementId};
use settle_domain::ledger::Account;
use settle_domain::operation::OperationStatus as Ours;
use settle_domain::payment::{Act, Outcome, StateName};
use settle_domain::reconciliation::FindingKind;
use settle_domain::seams::{Clock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_engine::acts::People;
use settle_engine::life::Means;
use settle_engine::providers::Providers;
use settle_engine::reconcile::{ReconcileError, Reconciler, When};
use settle_engine::wake::EngineWake;
use settle_provider::wire::{Operation, OperationKind};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{DueTime, JobState, Report};
use settle_testing::virtual_time;

use crate::acts::act_now;
use crate::desk::Lie;
use crate::notices::told;
use crate::reconcile::{LATER, Lister, Setup, Slowly, kinds, post_without_a_step};
use crate::world::at;

settle_testing::on_both_stores! {
    a_page_that_is_never_given_makes_the_list_begin_anew,
    a_run_that_fails_for_hours_is_told,
    what_became_known_after_a_run_is_looked_for_in_the_next,
    what_ended_while_a_run_was_under_way_is_no_finding,
    a_run_that_is_cut_off_at_its_end_only_ends,
    a_run_is_kept_however_long_a_page_takes,
    a_page_that_takes_hours_is_told_meanwhile,
    an_operation_of_another_version_stops_no_run,
    what_the_provider_says_and_nobody_can_read_stops_no_run,
    news_that_cannot_be_heard_is_found,
    news_that_the_database_refuses_are_found,
    a_list_that_begins_anew_tells_nothing_twice,
    a_return_is_booked_although_the_provider_was_silent_at_first,
    a_return_that_nobody_hears_of_is_left_to_the_engine,
    what_was_found_before_a_silence_is_kept,
}

impl Setup {
    async fn try_run(&self) -> Result<Option<Report>, ReconcileError> {
        self.reconciler.reconcile(&"desk".parse().unwrap(), When::Now).await
    }

    /// From now on the provider gives so many pages.
    fn gives(&self, pages: usize) {
        *self.lister.fails_after.lock().unwrap() = pages;
    }

    /// The provider gives all that it lists at once.
    fn on_one_page(&self) {
        *self.lister.a_page.lock().unwrap() = usize::MAX;
    }

    /// From now on the provider takes so long for each look-up.
    fn answers_slowly(&self, each: Duration) {
        let (store, clock) = (self.world.store.share(), Arc::clone(&self.world.clock));
        *self.lister.slowly.lock().unwrap() = Some(Slowly { each, store, clock, was_free: Vec::new() });
    }

    fn wait(&self, time: Duration) {
        self.world.clock.set(self.world.clock.now().plus(time));
    }
}

/// The provider no longer knows where the second page begins.
async fn a_page_that_is_never_given_makes_the_list_begin_anew(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    setup.completed().await;
    setup.gives(1);
    for _ in 0..3 {
        setup.try_run().await.unwrap_err();
    }
    setup.gives(usize::MAX);
    let (report, findings) = setup.reconcile().await;
    assert_eq!((report.listed, findings), (2, Vec::new()), "nothing counts twice");
    let asked = setup.lister.asked.lock().unwrap().clone();
    let asked: Vec<Option<&str>> = asked.iter().map(|(_, after)| after.as_deref()).collect();
    assert_eq!(asked, [None, None, Some("1")]);
}

async fn a_run_that_fails_for_hours_is_told(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    setup.gives(0);
    setup.try_run().await.unwrap_err();
    setup.wait(Duration::from_mins(119));
    setup.try_run().await.unwrap_err();
    setup.assert_told(&[]).await;
    setup.wait(Duration::from_mins(1));
    setup.try_run().await.unwrap_err();
    let alerts = told(&setup.world).await;
    assert_eq!((alerts.len(), alerts[0].kind), (1, AlertKind::ReconciliationOverdue));
    assert_eq!((alerts[0].subject.as_str(), alerts[0].ids.as_slice()), ("desk", &[][..]));
    assert!(alerts[0].last_text.contains("desk does not give its list"), "{}", alerts[0].last_text);
    setup.wait(Duration::from_hours(1));
    setup.try_run().await.unwrap_err();
    assert_eq!(told(&setup.world).await, [], "once");
}

/// Nobody knew what became of the payout, until a person said that it was paid: the provider has never heard
/// of it.
async fn what_became_known_after_a_run_is_looked_for_in_the_next(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.world.paying(&[Lie::Dropped]).await;
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::PayingOut);
    let rows = setup.world.operations(payment).await;
    let conversion = setup.lister_says(rows[0].operation_id).await;
    setup.lists(vec![conversion]);
    setup.world.clock.set(at(LATER));
    assert_eq!(kinds(&setup.reconcile().await.1), []);
    act_now(&setup.world, payment, Act::Resolve(Outcome::Paid), People::Two).await.unwrap();
    setup.lists(Vec::new());
    setup.wait(Duration::from_hours(24));
    let (_, findings) = setup.reconcile().await;
    assert_eq!(kinds(&findings), [FindingKind::UnknownToThem]);
    assert_eq!((findings[0].operation_id, &findings[0].theirs), (rows[1].operation_id, &None));
    setup.wait(Duration::from_hours(24));
    assert_eq!(kinds(&setup.reconcile().await.1), [], "it is told once");
}

/// A payout that waited long is sent after the provider has given its list.
async fn what_ended_while_a_run_was_under_way_is_no_finding(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.world.paying(&[Lie::OutOfGas]).await;
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::PayingOut);
    let rows = setup.world.operations(payment).await;
    let conversion = setup.lister_says(rows[0].operation_id).await;
    // The same page twice: the run fails between them.
    setup.lists(vec![conversion.clone(), conversion]);
    setup.gives(1);
    setup.world.clock.set(at(LATER));
    setup.try_run().await.unwrap_err();
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::Completed);
    setup.gives(usize::MAX);
    assert_eq!(kinds(&setup.reconcile().await.1), []);
    assert_eq!(setup.world.desk.executed(OperationKind::Payout).len(), 1);
}

/// What was listed is forgotten, and the run is not called whole yet.
async fn a_run_that_is_cut_off_at_its_end_only_ends(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    setup.completed().await;
    setup.world.clock.set(at(LATER));
    let (report, _) = setup.reconcile().await;
    let mut tx = setup.world.store.begin().await.unwrap();
    let now = setup.world.clock.now();
    let (by, hold) = (DueTime::by(Timestamp::MAX), Duration::ZERO);
    let taken = tx.job_take("reconcile desk", now, by, hold).await.unwrap().unwrap();
    let run = serde_json::json!({
        "report_id": report.report_id, "since": report.since, "started_at": report.started_at, "pages": 2,
        "is_listed": true, "is_walked": true,
    });
    let mark = serde_json::json!({ "run": run }).to_string();
    let state = JobState { due_at: now, held_until: now, mark };
    assert!(tx.job_keep("reconcile desk", taken.held_until, &state).await.unwrap());
    tx.commit().await.unwrap();
    let (again, findings) = setup.reconcile().await;
    assert_eq!((again.report_id, kinds(&findings)), (report.report_id, Vec::new()));
    setup.assert_told(&[]).await;
}

/// Two operations are not listed, and the provider takes eight minutes for each look-up.
async fn a_run_is_kept_however_long_a_page_takes(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    setup.completed().await;
    setup.lists(Vec::new());
    setup.world.clock.set(at(LATER));
    setup.answers_slowly(Duration::from_mins(8));
    let (_, findings) = setup.reconcile().await;
    assert_eq!(findings.len(), 2);
    let slowly = setup.lister.slowly.lock().unwrap().take().unwrap();
    assert_eq!(slowly.was_free, [false, false]);
}

/// Four operations are not listed, and the provider takes an hour for each look-up.
async fn a_page_that_takes_hours_is_told_meanwhile(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    setup.completed().await;
    let other = setup.world.receive(setup.world.order("other", "USDC")).await.unwrap();
    setup.world.go(other).await;
    setup.lists(Vec::new());
    setup.world.clock.set(at(LATER));
    setup.answers_slowly(Duration::from_hours(1));
    assert_eq!(setup.reconcile().await.1.len(), 4);
    let alerts = told(&setup.world).await;
    let overdue = alerts.iter().find(|alert| alert.kind == AlertKind::ReconciliationOverdue).unwrap();
    assert_eq!((overdue.subject.as_str(), overdue.occurrences), ("desk", 1));
    assert_eq!(overdue.last_text, "nothing can be compared with desk: it takes hours to answer");
}

/// One provider never ends its answer. The other is reconciled with every day, and the books are checked.
#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_keeps_nobody_else_waiting() {
    let setup = Setup::new(settle_store_sqlite::testing::scratch().await).await;
    setup.completed().await;
    setup.lists(Vec::new());
    setup.lister.hangs.store(true, Ordering::Relaxed);
    let world = &setup.world;
    world.clock.set(at(LATER));
    post_without_a_step(world).await;
    let other = Arc::new(Lister::new(world.other_desk.clone()));
    let stations = [setup.lister.station("desk", world), other.station("other", world)];
    let means = Means { providers: Providers::new(stations), ..world.means.clone() };
    let reconciler = Reconciler::new(means, EngineWake::default(), Arc::new(SeededEntropy::new(12)));
    let running = tokio::spawn(reconciler.run(std::future::pending()));
    for days in 1..=2 {
        virtual_time::pass(Duration::from_mins(2)).await;
        let reports = world.store.report_list(None, 10).await.unwrap();
        let ended = reports.iter().filter(|report| report.ended_at.is_some());
        let ended: Vec<&str> = ended.map(|report| report.provider.as_str()).collect();
        assert_eq!(ended, vec!["other"; days]);
        setup.wait(Duration::from_hours(24));
    }
    setup.assert_told(&[AlertKind::BooksDisagree]).await;
    running.abort();
}

async fn an_operation_of_another_version_stops_no_run(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (_, mut operations) = setup.completed().await;
    operations[1].amount = Some("181.149630".parse().unwrap());
    let damaged = operations[0].operation_id;
    setup.lists(operations);
    setup.world.store.execute("UPDATE operations SET status = 'weighed' WHERE kind = 'conversion'").await;
    let (report, findings) = setup.reconcile().await;
    assert_eq!(report.listed, 2);
    let mut found: Vec<_> =
        findings.iter().map(|found| (found.operation_id.0 == damaged, found.kind)).collect();
    found.sort();
    assert_eq!(found, [(false, FindingKind::OtherAmounts), (true, FindingKind::Unreadable)]);
}

/// One of two operations on a page has a line break in its reason, and the other another amount.
async fn what_the_provider_says_and_nobody_can_read_stops_no_run(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (payment, mut operations) = setup.completed().await;
    operations[0].reason = Some("first\nsecond".to_owned());
    operations[1].amount = Some("181.149630".parse().unwrap());
    let unreadable = operations[0].operation_id;
    setup.lists(operations);
    setup.on_one_page();
    setup.world.clock.set(at(LATER));
    let (report, mut findings) = setup.reconcile().await;
    assert_eq!(report.listed, 2, "it is listed, whatever it is");
    findings.sort_by_key(|found| found.kind);
    assert_eq!(kinds(&findings), [FindingKind::OtherAmounts, FindingKind::Unreadable]);
    let found = &findings[1];
    assert_eq!((found.operation_id.0, found.payment_id), (unreadable, Some(payment)));
    assert!(found.ours.is_some());
    let theirs: serde_json::Value = serde_json::from_str(found.theirs.as_ref().unwrap()).unwrap();
    assert_eq!(theirs["fault"], "`operations[0].reason` has control characters");
    assert!(theirs["told"].as_str().unwrap().contains("first\\nsecond"), "{theirs}");
}

/// What the provider says is news, and nobody can let the payment know: it is not listed again.
async fn news_that_cannot_be_heard_is_found(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.world.paying(&[Lie::Flip(0)]).await;
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::Failed);
    let rows = setup.world.operations(payment).await;
    let listed =
        vec![setup.lister_says(rows[0].operation_id).await, setup.lister_says(rows[1].operation_id).await];
    setup.lists(listed);
    setup.world.store.execute("UPDATE payments SET reason = 'weighed'").await;
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::SucceededThere]);
}

/// Somebody has recorded a settlement with the payment's id by hand: it cannot be completed.
async fn news_that_the_database_refuses_are_found(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.world.paying(&[Lie::Lost]).await;
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::PayingOut);
    let recorded = fixtures::settlement(setup.world.merchant, SettlementId(payment.0), at(1));
    fixtures::record(&*setup.world.store, &[recorded]).await;
    setup.lists(setup.operations(payment).await);
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::SucceededThere]);
}

/// A page with a finding is read twice, because the one after it never came: it is told once.
async fn a_list_that_begins_anew_tells_nothing_twice(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (_, mut operations) = setup.completed().await;
    operations[0].bought_amount = Some("184.162061".parse().unwrap());
    setup.lists(operations);
    for pages in [1, 0, 0, 1, usize::MAX] {
        setup.gives(pages);
        assert_eq!(setup.try_run().await.is_ok(), pages > 1);
        setup.wait(Duration::from_mins(10));
    }
    assert_eq!(setup.lister.asked.lock().unwrap().iter().filter(|(_, after)| after.is_none()).count(), 2);
    let alerts = told(&setup.world).await;
    assert_eq!((alerts.len(), alerts[0].occurrences), (1, 1));
}

impl Setup {
    /// A payment whose payout has come back, and the provider lists that.
    async fn returned(&self) -> PaymentId {
        let (payment, _) = self.completed().await;
        self.world.desk.returns(OperationKind::Payout);
        self.lists(self.operations(payment).await);
        payment
    }

    async fn assert_returned(&self, payment: PaymentId) {
        assert_eq!(self.world.operations(payment).await[1].status, Ours::Returned);
        assert_eq!(self.world.balance(Account::Returned, "USDC").await, "181.149631");
    }
}

/// The list says that money came back, once: the next one begins after it.
async fn a_return_is_booked_although_the_provider_was_silent_at_first(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.returned().await;
    setup.world.desk.silent(true);
    let unheard = setup.try_run().await;
    assert!(matches!(unheard, Err(ReconcileError::NoWord(..))), "{unheard:?}");
    setup.world.desk.silent(false);
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::Returned]);
    setup.assert_returned(payment).await;
}

/// The run ends without the provider's word: a person knows, and the engine asks.
async fn a_return_that_nobody_hears_of_is_left_to_the_engine(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.returned().await;
    setup.world.desk.silent(true);
    for _ in 0..2 {
        setup.try_run().await.unwrap_err();
    }
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::Returned]);
    assert_eq!(setup.world.operations(payment).await[1].status, Ours::Succeeded);
    setup.world.desk.silent(false);
    setup.world.go_when_due(payment).await;
    setup.assert_returned(payment).await;
}

/// The payment hears of its return before the provider is silent about the next operation: nothing would be
/// found at the second try.
async fn what_was_found_before_a_silence_is_kept(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.returned().await;
    setup.world.desk.lies(OperationKind::Payout, &[Lie::Refuse]);
    let other = setup.world.receive(setup.world.order("refused", "USDC")).await.unwrap();
    setup.world.go(other).await;
    let mut operations = setup.operations(payment).await;
    setup.says(&operations[1]);
    let refused = setup.world.operations(other).await[1].operation_id.0;
    operations.push(Operation { operation_id: refused, ..operations[1].clone() });
    setup.lists(operations);
    setup.on_one_page();
    setup.world.desk.silent(true);
    setup.try_run().await.unwrap_err();
    setup.assert_returned(payment).await;
    setup.world.desk.silent(false);
    let (_, findings) = setup.reconcile().await;
    assert!(findings.iter().any(|found| found.payment_id == Some(payment)), "{findings:?}");
}

/// The provider did it long ago, and we heard of it after the last run: only its own word says that it has
/// it, and a look-up without an answer is no word.
#[tokio::test]
async fn what_is_older_than_the_list_is_asked_about() {
    let setup = Setup::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = setup.world.paying(&[Lie::Lost]).await;
    setup.world.go(payment).await;
    setup.world.clock.set(at(LATER));
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::UnknownToThem], "the conversion");
    act_now(&setup.world, payment, Act::Resolve(Outcome::Paid), People::Two).await.unwrap();
    setup.wait(Duration::from_hours(24));
    setup.world.desk.silent(true);
    let unheard = setup.try_run().await;
    assert!(matches!(unheard, Err(ReconcileError::NoWord(..))), "{unheard:?}");
    setup.world.desk.silent(false);
    assert_eq!(kinds(&setup.reconcile().await.1), [], "it says that it has it");
}

/// Nobody hears whether the provider has it: a person must ask.
#[tokio::test]
async fn what_nobody_hears_of_is_found_in_the_end() {
    let setup = Setup::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = setup.world.paying(&[Lie::Lost]).await;
    setup.world.go(payment).await;
    setup.world.clock.set(at(LATER));
    setup.reconcile().await;
    act_now(&setup.world, payment, Act::Resolve(Outcome::Paid), People::Two).await.unwrap();
    setup.wait(Duration::from_hours(24));
    setup.world.desk.silent(true);
    for _ in 0..2 {
        setup.try_run().await.unwrap_err();
    }
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::UnknownToThem]);
}
