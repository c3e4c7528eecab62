//! Reconciliation: what a provider lists is compared with what we hold, both ways, and nothing is lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settle_domain::alert::AlertKind;
use settle_domain::ids::{OperationId, PaymentId};
use settle_domain::ledger::{Account, Postings};
use settle_domain::operation::OperationStatus as Ours;
use settle_domain::payment::StateName;
use settle_domain::reconciliation::FindingKind;
use settle_domain::seams::{Clock, ManualClock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_engine::books;
use settle_engine::life::Means;
use settle_engine::providers::{Providers, Station};
use settle_engine::reconcile::{ReconcileError, Reconciler, When};
use settle_engine::wake::EngineWake;
use settle_provider::provider::Provider;
use settle_provider::seen::{NotSentFault, Seen};
use settle_provider::wire::{
    self, Capabilities, Operation, OperationKind, OperationPage, OperationStatus, Quote, QuoteRequest,
};
use settle_store::conformance::ScratchStore;
use settle_store::{DueTime, Finding, OperationRow, Report, Store};
use uuid::Uuid;

use crate::desk::{Desk, Lie};
use crate::notices::told;
use crate::world::{World, at};

settle_testing::on_both_stores! {
    who_agrees_finds_nothing,
    what_we_never_asked_for_is_found,
    what_is_not_listed_is_found,
    another_amount_is_found,
    another_reference_is_found_and_ours_stays,
    money_that_came_back_is_booked_and_found,
    what_succeeded_there_is_looked_up_and_is_no_finding,
    what_counted_as_refused_and_succeeded_is_found,
    a_late_success_leaves_the_next_operation_due,
    a_run_that_is_cut_off_goes_on_where_it_was,
    one_process_reconciles_at_a_time,
    it_is_done_once_a_day,
    books_that_do_not_agree_are_told,
}

/// Later than PostgreSQL's own clock, by which operations are prepared.
pub(crate) const LATER: u64 = 10 * 365 * 24 * 3_600;

/// A desk that lists what it is told to, in pages of one unless it is told otherwise.
pub(crate) struct Lister {
    desk: Arc<Desk>,
    listed: Mutex<Vec<Operation>>,
    pub(crate) a_page: Mutex<usize>,
    /// What it says when it is asked about one, instead of the desk.
    says: Mutex<HashMap<Uuid, Operation>>,
    /// From where it was asked to list, and whether it answers.
    pub(crate) asked: Mutex<Vec<(Timestamp, Option<String>)>>,
    pub(crate) fails_after: Mutex<usize>,
    /// Whether somebody else could have taken the run, asked at each look-up, which takes so long.
    pub(crate) slowly: Mutex<Option<Slowly>>,
    /// Whether look-ups never end.
    pub(crate) hangs: AtomicBool,
}

/// A provider that takes long for each look-up.
pub(crate) struct Slowly {
    pub(crate) each: Duration,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) was_free: Vec<bool>,
}

impl Lister {
    pub(crate) fn new(desk: Arc<Desk>) -> Lister {
        Lister {
            desk,
            listed: Mutex::default(),
            a_page: Mutex::new(1),
            says: Mutex::default(),
            asked: Mutex::default(),
            fails_after: Mutex::new(usize::MAX),
            slowly: Mutex::default(),
            hangs: AtomicBool::new(false),
        }
    }

    /// A reconciler's provider of this name.
    pub(crate) fn station(self: &Arc<Self>, name: &str, world: &World) -> Station {
        let window = Duration::from_hours(24);
        Station::new(name.parse().unwrap(), self.clone(), world.clock.clone(), window)
    }

    async fn take_time(&self) {
        let Some((store, now)) = self.slowly.lock().unwrap().as_ref().map(|slowly| {
            slowly.clock.set(slowly.clock.now().plus(slowly.each));
            (Arc::clone(&slowly.store), slowly.clock.now())
        }) else {
            return;
        };
        let mut tx = store.begin().await.unwrap();
        let by = DueTime::by(Timestamp::MAX);
        let taken = tx.job_take("reconcile desk", now, by, Duration::from_mins(10)).await.unwrap();
        drop(tx);
        self.slowly.lock().unwrap().as_mut().unwrap().was_free.push(taken.is_some());
    }
}

#[async_trait]
impl Provider for Lister {
    async fn quote(&self, request: &QuoteRequest, stamped_at: Timestamp) -> Seen<Quote> {
        self.desk.quote(request, stamped_at).await
    }

    async fn send(
        &self,
        kind: OperationKind,
        id: Uuid,
        body: Bytes,
        stamped_at: Timestamp,
    ) -> Seen<Operation> {
        self.desk.send(kind, id, body, stamped_at).await
    }

    async fn look_up(&self, id: Uuid, stamped_at: Timestamp) -> Seen<Operation> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.take_time().await;
        let said = self.says.lock().unwrap().get(&id).cloned();
        match said {
            Some(operation) => Seen::Answered(operation),
            None => self.desk.look_up(id, stamped_at).await,
        }
    }

    async fn void(&self, id: Uuid, stamped_at: Timestamp) -> Seen<Operation> {
        self.desk.void(id, stamped_at).await
    }

    async fn changes(&self, since: Timestamp, after: Option<&str>, _at: Timestamp) -> Seen<OperationPage> {
        let mut fails_after = self.fails_after.lock().unwrap();
        if *fails_after == 0 {
            return Seen::NotSent(NotSentFault::Dns);
        }
        *fails_after -= 1;
        self.asked.lock().unwrap().push((since, after.map(ToOwned::to_owned)));
        let listed = self.listed.lock().unwrap();
        let place: usize = after.map_or(0, |after| after.parse().unwrap());
        let (a_page, left) = (*self.a_page.lock().unwrap(), listed.len().saturating_sub(place));
        let next = (left > a_page).then(|| (place + a_page).to_string());
        let operations: Vec<&Operation> = listed.iter().skip(place).take(a_page).collect();
        let page = serde_json::json!({ "operations": operations, "next": next });
        Seen::Answered(wire::read(page.to_string().as_bytes()).expect("a page"))
    }

    async fn capabilities(&self, stamped_at: Timestamp) -> Seen<Capabilities> {
        self.desk.capabilities(stamped_at).await
    }
}

pub(crate) struct Setup {
    pub(crate) world: World,
    pub(crate) lister: Arc<Lister>,
    pub(crate) reconciler: Reconciler,
}

impl Setup {
    pub(crate) async fn new(scratch: ScratchStore) -> Setup {
        let world = World::new(scratch).await;
        let lister = Arc::new(Lister::new(world.desk.clone()));
        let station = lister.station("desk", &world);
        let means = Means { providers: Providers::new([station]), ..world.means.clone() };
        let entropy = Arc::new(SeededEntropy::new(11));
        let reconciler = Reconciler::new(means, EngineWake::default(), entropy);
        Setup { world, lister, reconciler }
    }

    /// The operations of a payment as the provider should list them.
    pub(crate) async fn operations(&self, payment: PaymentId) -> Vec<Operation> {
        let mut operations = Vec::new();
        for row in self.world.operations(payment).await {
            operations.push(self.lister_says(row.operation_id).await);
        }
        operations
    }

    /// An operation as the provider knows it.
    pub(crate) async fn lister_says(&self, operation: OperationId) -> Operation {
        match self.lister.look_up(operation.0, self.world.clock.now()).await {
            Seen::Answered(operation) => operation,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn lists(&self, operations: Vec<Operation>) {
        *self.lister.listed.lock().unwrap() = operations;
    }

    pub(crate) fn says(&self, operation: &Operation) {
        self.lister.says.lock().unwrap().insert(operation.operation_id, operation.clone());
    }

    pub(crate) async fn reconcile(&self) -> (Report, Vec<Finding>) {
        let report = self.reconciler.reconcile(&"desk".parse().unwrap(), When::Now).await.unwrap().unwrap();
        assert!(report.ended_at.is_some());
        let findings = self.world.store.report_findings(report.report_id, None, 100).await.unwrap();
        assert_eq!(report.findings, u64::try_from(findings.len()).unwrap());
        (report, findings)
    }

    pub(crate) async fn completed(&self) -> (PaymentId, Vec<Operation>) {
        let payment = self.world.paying(&[]).await;
        self.world.go(payment).await;
        let operations = self.operations(payment).await;
        assert_eq!(operations.len(), 2);
        self.lists(operations.clone());
        (payment, operations)
    }

    pub(crate) async fn assert_told(&self, kinds: &[AlertKind]) {
        let mut told: Vec<AlertKind> = told(&self.world).await.iter().map(|alert| alert.kind).collect();
        told.sort_unstable();
        assert_eq!(told, kinds);
    }

    async fn assert_books(&self) {
        let checked = books::check(&*self.world.store, &*self.world.clock).await.unwrap();
        assert_eq!(checked.disagreements, []);
    }
}

pub(crate) fn kinds(findings: &[Finding]) -> Vec<FindingKind> {
    findings.iter().map(|finding| finding.kind).collect()
}

async fn who_agrees_finds_nothing(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    setup.completed().await;
    setup.world.clock.set(at(LATER));
    let (report, findings) = setup.reconcile().await;
    assert_eq!((report.listed, findings), (2, Vec::new()));
    setup.assert_told(&[]).await;
}

async fn what_we_never_asked_for_is_found(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (_, operations) = setup.completed().await;
    let strange = Operation { operation_id: Uuid::from_u128(7), ..operations[1].clone() };
    setup.lists([operations, vec![strange]].concat());
    let (report, findings) = setup.reconcile().await;
    assert_eq!((report.listed, kinds(&findings)), (3, vec![FindingKind::UnknownToUs]));
    assert_eq!((findings[0].operation_id.0, &findings[0].ours), (Uuid::from_u128(7), &None));
    assert!(findings[0].theirs.as_ref().unwrap().contains("\"181.149631\""));
    let alerts = told(&setup.world).await;
    assert_eq!((alerts.len(), alerts[0].kind), (1, AlertKind::ReconciliationFinding));
    assert_eq!((alerts[0].subject.as_str(), alerts[0].ids.as_slice()), ("desk", &[Uuid::from_u128(7)][..]));
}

async fn what_is_not_listed_is_found(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (payment, mut operations) = setup.completed().await;
    let payout = operations.pop().unwrap();
    setup.lists(operations);
    setup.world.clock.set(at(LATER));
    let (_, findings) = setup.reconcile().await;
    assert_eq!(kinds(&findings), [FindingKind::UnknownToThem]);
    assert_eq!(findings[0].operation_id.0, payout.operation_id);
    assert_eq!(findings[0].payment_id, Some(payment));
    assert!(findings[0].ours.as_ref().unwrap().contains("\"status\":\"succeeded\""));
    assert!(findings[0].theirs.is_some(), "it knows it when it is asked");
    setup.assert_told(&[AlertKind::ReconciliationFinding]).await;
}

async fn another_amount_is_found(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (_, mut operations) = setup.completed().await;
    operations[0].bought_amount = Some("184.162061".parse().unwrap());
    operations[1].amount = Some("181.149630".parse().unwrap());
    setup.lists(operations);
    let (_, findings) = setup.reconcile().await;
    assert_eq!(kinds(&findings), [FindingKind::OtherAmounts, FindingKind::OtherAmounts]);
    setup.assert_told(&[AlertKind::ReconciliationFinding]).await;
}

/// The merchant's record has the first one. Who names none says nothing else.
async fn another_reference_is_found_and_ours_stays(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (payment, mut operations) = setup.completed().await;
    operations[0].provider_reference = None;
    operations[1].provider_reference = Some("another".to_owned());
    setup.says(&operations[1]);
    setup.lists(operations.clone());
    let (_, findings) = setup.reconcile().await;
    assert_eq!(kinds(&findings), [FindingKind::OtherReference]);
    let ours = format!("\"provider_reference\":\"ref-{}\"", operations[1].operation_id);
    assert!(findings[0].ours.as_ref().unwrap().contains(&ours), "{findings:?}");
    setup.assert_told(&[AlertKind::ReconciliationFinding]).await;
    // A look-up that tells the same changes nothing.
    operations[1].status = OperationStatus::Returned;
    setup.says(&operations[1]);
    setup.lists(operations);
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::Returned]);
    assert!(setup.world.operations(payment).await[1].memory.contains(&ours));
    assert_eq!(kinds(&setup.reconcile().await.1), [FindingKind::OtherReference], "they still do not agree");
}

async fn money_that_came_back_is_booked_and_found(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (payment, mut operations) = setup.completed().await;
    operations[1].status = OperationStatus::Returned;
    setup.says(&operations[1]);
    setup.lists(operations);
    let (_, findings) = setup.reconcile().await;
    assert_eq!(kinds(&findings), [FindingKind::Returned]);
    assert_eq!(setup.world.row(payment).await.standing.state, StateName::Completed, "the record stays");
    assert_eq!(setup.world.balance(Account::Paid, "USDC").await, "0.000000");
    assert_eq!(setup.world.balance(Account::Returned, "USDC").await, "181.149631");
    setup.assert_told(&[AlertKind::PaymentReturned, AlertKind::ReconciliationFinding]).await;
    setup.assert_books().await;
    let (_, findings) = setup.reconcile().await;
    assert_eq!(findings, [], "both sides know");
    assert_eq!(setup.world.balance(Account::Returned, "USDC").await, "181.149631", "booked once");
}

async fn what_succeeded_there_is_looked_up_and_is_no_finding(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let payment = setup.world.paying(&[Lie::Lost]).await;
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::PayingOut);
    setup.lists(setup.operations(payment).await);
    let (_, findings) = setup.reconcile().await;
    assert_eq!(findings, [], "it was merely under way");
    setup.world.assert_completed_once(payment).await;
    setup.assert_told(&[]).await;
}

/// The refused payout of the order "refused", as the provider would list it if it was done after all.
fn done_after_all(refused: &OperationRow, model: &Operation) -> Operation {
    Operation {
        operation_id: refused.operation_id.0,
        destination_reference: Some("wallet of refused".to_owned()),
        ..model.clone()
    }
}

async fn what_counted_as_refused_and_succeeded_is_found(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (_, model) = setup.completed().await;
    setup.world.desk.lies(OperationKind::Payout, &[Lie::Refuse]);
    let payment = setup.world.receive(setup.world.order("refused", "USDC")).await.unwrap();
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::Failed);
    let refused = setup.world.operations(payment).await.pop().unwrap();
    let succeeded = done_after_all(&refused, &model[1]);
    setup.says(&succeeded);
    setup.lists(vec![succeeded]);
    let (_, findings) = setup.reconcile().await;
    assert_eq!(kinds(&findings), [FindingKind::SucceededThere]);
    let row = setup.world.row(payment).await;
    assert_eq!(row.standing.state, StateName::NeedsReview, "nothing more is sent for it");
    assert_eq!(setup.world.operations(payment).await.pop().unwrap().status, Ours::Succeeded);
    setup.assert_told(&[AlertKind::PaymentNeedsReview, AlertKind::ReconciliationFinding]).await;
    setup.assert_books().await;
}

/// The refused payout of a payment was done after all, while its second one is in flight: that one is still
/// looked up.
async fn a_late_success_leaves_the_next_operation_due(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let (_, model) = setup.completed().await;
    setup.world.desk.lies(OperationKind::Payout, &[Lie::Refuse, Lie::Lost]);
    let payment = setup.world.receive(setup.world.order("refused", "USDC")).await.unwrap();
    setup.world.go(payment).await;
    let refused = setup.world.operations(payment).await.pop().unwrap();
    crate::notices::do_by_hand(&setup.world, payment, settle_domain::payment::Act::Retry).await;
    assert_eq!(setup.world.go(payment).await.standing.state, StateName::PayingOut);
    let succeeded = done_after_all(&refused, &model[1]);
    setup.says(&succeeded);
    setup.lists(vec![succeeded]);
    setup.reconcile().await;
    let row = setup.world.row(payment).await;
    assert_eq!(row.standing.state, StateName::NeedsReview);
    assert!(row.standing.due_at.is_some(), "the second payout is still looked up");
    setup.assert_books().await;
}

async fn a_run_that_is_cut_off_goes_on_where_it_was(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    setup.completed().await;
    *setup.lister.fails_after.lock().unwrap() = 1;
    let desk = "desk".parse().unwrap();
    let failed = setup.reconciler.reconcile(&desk, When::Due).await;
    let words = "desk does not give its list: it could not be reached (DNS: the host has no address)";
    assert_eq!(failed.unwrap_err().to_string(), words);
    let begun = setup.world.store.report_list(None, 10).await.unwrap();
    assert_eq!((begun.len(), begun[0].listed, begun[0].ended_at), (1, 1, None));
    *setup.lister.fails_after.lock().unwrap() = usize::MAX;
    assert!(setup.reconciler.reconcile(&desk, When::Due).await.unwrap().is_none(), "not at once");
    setup.world.clock.set(setup.world.clock.now().plus(Duration::from_mins(10)));
    let report = setup.reconciler.reconcile(&desk, When::Due).await.unwrap().unwrap();
    assert_eq!((report.report_id, report.listed, report.findings), (begun[0].report_id, 2, 0));
    let asked = setup.lister.asked.lock().unwrap().clone();
    assert_eq!(asked.iter().map(|(_, after)| after.as_deref()).collect::<Vec<_>>(), [None, Some("1")]);
}

async fn one_process_reconciles_at_a_time(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let now = setup.world.clock.now();
    let mut tx = setup.world.store.begin().await.unwrap();
    let job = tx.job_take("reconcile desk", now, DueTime::by(now), Duration::from_mins(10)).await.unwrap();
    assert!(job.is_some());
    tx.commit().await.unwrap();
    let desk = "desk".parse().unwrap();
    assert!(setup.reconciler.reconcile(&desk, When::Due).await.unwrap().is_none());
    let by_hand = setup.reconciler.reconcile(&desk, When::Now).await;
    assert!(matches!(by_hand, Err(ReconcileError::UnderWay(_))), "{by_hand:?}");
    let unknown = setup.reconciler.reconcile(&"nobody".parse().unwrap(), When::Now).await;
    assert!(matches!(unknown, Err(ReconcileError::UnknownProvider(_))), "{unknown:?}");
}

async fn it_is_done_once_a_day(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let start = setup.world.clock.now();
    for hours in [0, 1, 23, 24, 25] {
        setup.world.clock.set(start.plus(Duration::from_hours(hours)));
        setup.reconciler.work().await;
    }
    let reports = setup.world.store.report_list(None, 10).await.unwrap();
    let sinces: Vec<Timestamp> = reports.iter().map(|report| report.since).collect();
    assert_eq!(sinces, [start.minus(Duration::from_hours(1)), Timestamp::from_micros(0)]);
    assert!(reports.iter().all(|report| report.ended_at.is_some()));
}

/// The balances change, and no timeline says why.
pub(crate) async fn post_without_a_step(world: &World) {
    let mut tx = world.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[world.merchant]).await.unwrap();
    let asset = "BRL".parse().unwrap();
    let posted = Postings::none().and(asset, Account::Payer, Account::Fees, "1".parse().unwrap()).unwrap();
    tx.balance_post_many(&lock, &[(world.merchant, posted)]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn books_that_do_not_agree_are_told(scratch: ScratchStore) {
    let setup = Setup::new(scratch).await;
    let world = &setup.world;
    setup.reconciler.work().await;
    setup.assert_told(&[]).await;
    post_without_a_step(world).await;
    setup.reconciler.work().await;
    setup.assert_told(&[]).await;
    world.clock.set(world.clock.now().plus(Duration::from_hours(24)));
    setup.reconciler.work().await;
    let alerts = told(world).await;
    assert_eq!((alerts.len(), alerts[0].kind), (1, AlertKind::BooksDisagree));
    assert_eq!((alerts[0].merchant_id, alerts[0].occurrences), (world.merchant, 2));
    assert!(alerts[0].last_text.contains("but the timelines say 0.00"), "{}", alerts[0].last_text);
}
