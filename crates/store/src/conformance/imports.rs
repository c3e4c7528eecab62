//! Imports: staged, accepted or discarded, and recorded in steps.

use settle_domain::ids::{ImportId, MerchantId, SettlementId};
use settle_domain::settlement::Origin;

use super::fixtures::{at, merchant, pricing, record, settlement, settlement_of, settlements, unique_uuid};
use super::payments::{create, payment_of, try_create};
use crate::{
    BATCH_MAX, IMPORTS_MAX, Import, ImportState, ImportStep, MerchantLock, NewSettlement, PaymentCreated,
    RecordedBatch, StagedBatch, Store, Tx,
};

/// As many new settlements of a merchant, in no order of their ids.
fn new_rows(merchant: MerchantId, number: u64) -> Vec<NewSettlement> {
    let ids: Vec<SettlementId> = (0..number).map(|_| SettlementId(unique_uuid())).collect();
    ids.into_iter().rev().zip(0..).map(|(id, second)| settlement(merchant, id, at(second))).collect()
}

/// The same settlement with other content.
fn other_content(row: &NewSettlement) -> NewSettlement {
    NewSettlement { pricing: Some(pricing("7")), ..row.clone() }
}

fn key(row: &NewSettlement) -> (MerchantId, SettlementId) {
    (row.merchant_id, row.settlement_id)
}

async fn locked(store: &dyn Store, rows: &[NewSettlement]) -> (Box<dyn Tx>, MerchantLock) {
    let merchants: Vec<MerchantId> = rows.iter().map(|row| row.merchant_id).collect();
    let mut tx = store.begin_step().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    (tx, lock)
}

async fn begin(store: &dyn Store) -> ImportId {
    let import = ImportId(unique_uuid());
    let mut tx = store.begin().await.unwrap();
    assert!(tx.import_begin(import, true, at(0)).await.unwrap());
    tx.commit().await.unwrap();
    import
}

/// Stages rows, and commits unless one is in the way.
async fn try_stage(store: &dyn Store, import: ImportId, rows: &[NewSettlement]) -> Option<StagedBatch> {
    let (mut tx, lock) = locked(store, rows).await;
    let batch = tx.import_stage(&lock, import, rows, at(1)).await.unwrap();
    if batch.as_ref().is_some_and(|batch| batch.conflicting.is_empty() && batch.reserved.is_empty()) {
        tx.commit().await.unwrap();
    }
    batch
}

/// Stages rows of which none is in the way, and says how many were staged.
async fn stage(store: &dyn Store, import: ImportId, rows: &[NewSettlement]) -> usize {
    let batch = try_stage(store, import, rows).await.expect("it is being staged");
    assert_eq!((batch.conflicting, batch.reserved), (vec![], vec![]));
    batch.staged
}

async fn accept(store: &dyn Store, import: ImportId, waiting: u64) -> bool {
    let mut tx = store.begin().await.unwrap();
    let accepted = tx.import_accept(import, waiting, at(2)).await.unwrap();
    tx.commit().await.unwrap();
    accepted
}

async fn discard(store: &dyn Store, import: ImportId) -> bool {
    let mut tx = store.begin().await.unwrap();
    let discarded = tx.import_discard(import, at(2)).await.unwrap();
    tx.commit().await.unwrap();
    discarded
}

async fn forget(store: &dyn Store, import: ImportId) {
    let mut tx = store.begin().await.unwrap();
    tx.import_forget(import).await.unwrap();
    tx.commit().await.unwrap();
}

/// Takes the given rows and records them, without a commit.
async fn take(
    tx: &mut dyn Tx,
    lock: &MerchantLock,
    import: ImportId,
    rows: Vec<NewSettlement>,
) -> Option<Import> {
    let taken = tx.import_take(lock, import, rows).await.unwrap();
    let batch = tx.settlement_record_many(lock, &taken).await.unwrap();
    assert_eq!((batch.conflicting, batch.reserved), (vec![], vec![]), "nothing comes into conflict");
    let (taken, recorded) = (taken.len() as u64, batch.recorded.len() as u64);
    tx.import_count(import, ImportStep { taken, recorded, notified: 0 }, at(3)).await.unwrap()
}

/// Takes a step, and commits.
async fn step(store: &dyn Store, import: ImportId, rows_max: u32) -> Import {
    let rows = store.import_rows(import, None, rows_max).await.unwrap();
    let (mut tx, lock) = locked(store, &rows).await;
    let after = take(&mut *tx, &lock, import, rows).await;
    tx.commit().await.unwrap();
    after.expect("it is there")
}

/// Deletes the rows of a discarded import.
async fn delete(store: &dyn Store, import: ImportId) {
    let rows = store.import_rows(import, None, 1_000).await.unwrap();
    let (mut tx, lock) = locked(store, &rows).await;
    let taken = tx.import_take(&lock, import, rows).await.unwrap().len() as u64;
    let step = ImportStep { taken, ..ImportStep::default() };
    assert_eq!(tx.import_count(import, step, at(3)).await.unwrap().map(|import| import.waiting), Some(0));
    tx.commit().await.unwrap();
}

async fn total(store: &dyn Store, merchant: MerchantId) -> u64 {
    settlements(store, merchant, 1, 0).await.total
}

/// What a transaction finds that records these and is dropped.
async fn try_record(store: &dyn Store, rows: &[NewSettlement]) -> RecordedBatch {
    let (mut tx, lock) = locked(store, rows).await;
    tx.settlement_record_many(&lock, rows).await.unwrap()
}

async fn find(store: &dyn Store, import: ImportId) -> Option<Import> {
    store.import_list().await.unwrap().into_iter().find(|found| found.import_id == import)
}

/// No list shows what is staged. Steps record it in the order of merchant and settlement, with its pricing.
pub async fn an_import_is_recorded_in_steps(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let mut rows = [new_rows(two, 3), new_rows(one, 4)].concat();
    rows[1].pricing = Some(pricing("2"));
    rows[2].origin = Origin::Unchecked;
    let unchecked = key(&rows[2]);
    let import = begin(store).await;
    assert_eq!((stage(store, import, &rows[..2]).await, stage(store, import, &rows[2..]).await), (2, 5));
    assert_eq!((total(store, one).await, total(store, two).await), (0, 0));
    rows.sort_by_key(key);
    assert_eq!(store.import_rows(import, None, 10).await.unwrap(), rows);
    assert_eq!(store.import_rows(import, Some(key(&rows[3])), 2).await.unwrap(), rows[4..6]);
    assert!(accept(store, import, 7).await);
    let mut expected = Import {
        import_id: import,
        notifies: true,
        state: ImportState::Accepted,
        alive_at: at(2),
        waiting: 7,
        recorded: 0,
        notified: 0,
    };
    assert_eq!(store.import_list().await.unwrap(), [expected]);
    for (waiting, of_one, of_two) in [(4, 3, 0), (1, 4, 2), (0, 4, 3)] {
        expected = Import { waiting, recorded: 7 - waiting, alive_at: at(3), ..expected };
        if waiting == 0 {
            expected.state = ImportState::Done;
        }
        assert_eq!(step(store, import, 3).await, expected);
        assert_eq!((total(store, one).await, total(store, two).await), (of_one, of_two));
    }
    let again = record(store, &rows).await;
    assert_eq!(again, RecordedBatch::default(), "all of it is there, pricing too");
    let remembered = store.settlement_unchecked(unchecked.0, None, 10).await.unwrap();
    assert_eq!(remembered, [unchecked.1], "that it was not checked");
    forget(store, import).await;
    assert_eq!(store.import_list().await.unwrap(), []);
}

/// A payment that is there is in the way of staging; what is staged is in the way of a payment, until it is
/// discarded, and is recorded without another look.
pub async fn staged_settlements_and_payments_are_in_each_others_way(store: &dyn Store) {
    let owner = merchant(store).await;
    let reference = |what: &str| format!("{what} of {owner}");
    let of = |what: &str| settlement_of(owner, SettlementId(unique_uuid()), at(1), &reference(what));
    let there = payment_of(owner, &reference("there"), at(1));
    create(store, std::slice::from_ref(&there)).await;
    let import = begin(store).await;
    let with_id = settlement(owner, SettlementId(there.payment_id.0), at(1));
    for one in [of("there"), with_id] {
        let batch = try_stage(store, import, &[of("free"), one.clone()]).await.unwrap();
        let payments = vec![key(&one)];
        let expected = StagedBatch { conflicting: payments.clone(), payments, ..StagedBatch::default() };
        assert_eq!(batch, expected);
    }
    let by_id = payment_of(owner, &reference("by id"), at(1));
    let rows = [of("staged"), settlement(owner, SettlementId(by_id.payment_id.0), at(1))];
    let staged = [payment_of(owner, &reference("staged"), at(1)), by_id];
    assert_eq!(stage(store, import, &rows).await, 2);
    for payment in &staged {
        assert_eq!(try_create(store, payment).await, PaymentCreated::Conflict);
    }
    assert!(discard(store, import).await);
    for payment in &staged {
        assert_eq!(try_create(store, payment).await, PaymentCreated::New);
    }
    delete(store, import).await;
    let import = begin(store).await;
    assert_eq!(stage(store, import, &rows).await, 2);
    assert!(accept(store, import, 2).await);
    assert_eq!(try_create(store, &staged[0]).await, PaymentCreated::Conflict);
    assert_eq!(step(store, import, 10).await.recorded, 2);
    assert_eq!(try_create(store, &staged[0]).await, PaymentCreated::Conflict);
}

/// A discarded import is never accepted, and stages nothing more. Its rows are in nobody's way.
pub async fn nothing_of_a_discarded_import_is_recorded(store: &dyn Store) {
    let merchant = merchant(store).await;
    let rows = new_rows(merchant, 3);
    let import = begin(store).await;
    stage(store, import, &rows).await;
    assert!(discard(store, import).await);
    assert!(!discard(store, import).await && !accept(store, import, 3).await);
    assert_eq!(try_stage(store, import, &new_rows(merchant, 1)).await, None);
    let other = other_content(&rows[0]);
    assert_eq!(try_record(store, std::slice::from_ref(&other)).await.recorded, [key(&other)]);
    forget(store, import).await;
    assert_eq!(find(store, import).await.map(|import| import.waiting), Some(3), "it has rows");
    delete(store, import).await;
    forget(store, import).await;
    assert_eq!((find(store, import).await, total(store, merchant).await), (None, 0));
}

/// What is stored, or staged by the same import, with the same content, is not staged again.
pub async fn what_is_there_is_not_staged(store: &dyn Store) {
    let merchant = merchant(store).await;
    let rows = new_rows(merchant, 4);
    record(store, &rows[..1]).await;
    let import = begin(store).await;
    let twice = [&rows[..2], &rows[1..2]].concat();
    assert_eq!(stage(store, import, &twice).await, 1);
    assert_eq!(stage(store, import, &rows).await, 2);
    assert_eq!(find(store, import).await.map(|import| import.waiting), Some(3));
    assert_eq!(stage(store, import, &[]).await, 0);
    assert!(accept(store, import, 3).await);
    assert_eq!(step(store, import, 10).await.recorded, 3);
    assert_eq!(total(store, merchant).await, 4);
    let nothing = begin(store).await;
    assert_eq!(stage(store, nothing, &rows).await, 0);
    assert!(accept(store, nothing, 0).await);
    assert_eq!(find(store, nothing).await.map(|import| import.state), Some(ImportState::Done));
}

/// A row is compared with what is stored, with the import's own rows, and with those of other imports.
pub async fn other_content_is_not_staged(store: &dyn Store) {
    let merchant = merchant(store).await;
    let rows = new_rows(merchant, 3);
    record(store, &rows[..1]).await;
    let (first, second) = (begin(store).await, begin(store).await);
    stage(store, first, &rows[1..]).await;
    let others: Vec<NewSettlement> = rows.iter().map(other_content).collect();
    let keys: Vec<_> = rows.iter().map(key).collect();
    let of_first = try_stage(store, first, &others[..2]).await.unwrap();
    assert_eq!(of_first, StagedBatch { conflicting: keys[..2].to_vec(), ..StagedBatch::default() });
    let of_second = try_stage(store, second, &others[1..2]).await.unwrap();
    assert_eq!(of_second, StagedBatch { reserved: keys[1..2].to_vec(), ..StagedBatch::default() });
    let inside = try_stage(store, second, &[rows[1].clone(), others[1].clone()]).await.unwrap();
    assert!(inside.conflicting.contains(&keys[1]), "{inside:?}");
    assert!(accept(store, first, 2).await);
    let of_second = try_stage(store, second, &others[1..2]).await.unwrap();
    assert_eq!(of_second, StagedBatch { conflicting: keys[1..2].to_vec(), ..StagedBatch::default() });
    assert_eq!(find(store, second).await.map(|import| import.waiting), Some(0), "nothing is left of it");
}

/// Two imports may have the same settlement. Whichever is discarded, the other one still has it.
pub async fn two_imports_may_have_the_same(store: &dyn Store) {
    let merchant = merchant(store).await;
    let rows = new_rows(merchant, 2);
    let [first, second, third] = [begin(store).await, begin(store).await, begin(store).await];
    for import in [first, second, third] {
        assert_eq!(stage(store, import, &rows).await, 2);
    }
    assert!(discard(store, first).await && accept(store, second, 2).await && accept(store, third, 2).await);
    delete(store, first).await;
    assert_eq!(step(store, second, 10).await.recorded, 2);
    let last = step(store, third, 10).await;
    assert_eq!((last.state, last.waiting, last.recorded), (ImportState::Done, 0, 0), "they are there");
    assert_eq!(total(store, merchant).await, 2);
}

/// Whoever records other content than an import has staged is refused: for good if it is accepted, else for
/// now. The same content, another settlement and another merchant are recorded.
pub async fn nobody_records_against_what_is_staged(store: &dyn Store) {
    let (importing, other) = (merchant(store).await, merchant(store).await);
    let rows = new_rows(importing, 3);
    let import = begin(store).await;
    stage(store, import, &rows).await;
    let against = [other_content(&rows[0])];
    let refused = RecordedBatch { recorded: vec![key(&rows[0])], ..RecordedBatch::default() };
    let keys = vec![key(&rows[0])];
    let for_now = RecordedBatch { reserved: keys.clone(), ..refused.clone() };
    assert_eq!(try_record(store, &against).await, for_now);
    let free = [new_rows(importing, 1), new_rows(other, 1)].concat();
    assert_eq!(record(store, &free).await.recorded, free.iter().map(key).collect::<Vec<_>>());
    assert_eq!(record(store, &rows[1..2]).await.recorded, [key(&rows[1])], "the same content");
    accept(store, import, 3).await;
    assert_eq!(try_record(store, &against).await, RecordedBatch { conflicting: keys, ..refused });
    let after = step(store, import, 10).await;
    assert_eq!((after.recorded, after.waiting), (2, 0), "one was there already");
    assert_eq!((total(store, importing).await, total(store, other).await), (4, 1));
    assert_eq!(try_record(store, &against).await.conflicting, [key(&rows[0])]);
}

/// A transaction that staged rows may have been lost: then the import is not accepted.
pub async fn an_import_is_accepted_with_all_its_rows_alone(store: &dyn Store) {
    let merchant = merchant(store).await;
    let import = begin(store).await;
    stage(store, import, &new_rows(merchant, 2)).await;
    assert!(!accept(store, import, 3).await && !accept(store, import, 1).await);
    assert!(accept(store, import, 2).await);
    assert!(!accept(store, import, 2).await && !discard(store, import).await, "it is accepted");
    assert_eq!(try_stage(store, import, &new_rows(merchant, 1)).await, None);
    forget(store, import).await;
    assert!(find(store, import).await.is_some(), "it is not done");
}

/// Two work on the same import: each row is recorded and counted once.
pub async fn a_row_is_taken_once(store: &dyn Store) {
    let merchant = merchant(store).await;
    let rows = new_rows(merchant, 3);
    let import = begin(store).await;
    stage(store, import, &rows).await;
    accept(store, import, 3).await;
    let seen = store.import_rows(import, None, 2).await.unwrap();
    assert_eq!(step(store, import, 1).await.waiting, 2);
    let (mut tx, lock) = locked(store, &seen).await;
    let after = take(&mut *tx, &lock, import, seen.clone()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((after.waiting, after.recorded), (1, 2));
    assert_eq!(step(store, import, 10).await.state, ImportState::Done);
    forget(store, import).await;
    let (mut tx, lock) = locked(store, &seen).await;
    assert_eq!(take(&mut *tx, &lock, import, seen).await, None, "it is gone");
    assert_eq!(total(store, merchant).await, 3);
}

/// Of several who find an import abandoned one adopts it.
pub async fn an_import_is_adopted_once(store: &dyn Store) {
    let import = begin(store).await;
    for (seen, is_adopted) in [(at(0), true), (at(0), false), (at(9), true)] {
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.import_adopt(import, seen, at(9)).await.unwrap(), is_adopted);
        tx.commit().await.unwrap();
    }
    assert_eq!(find(store, import).await.map(|import| import.alive_at), Some(at(9)));
}

/// Whoever records looks at each import under way, so there are few.
pub async fn imports_under_way_are_bounded(store: &dyn Store) {
    for _ in 0..IMPORTS_MAX {
        begin(store).await;
    }
    let mut tx = store.begin().await.unwrap();
    assert!(!tx.import_begin(ImportId(unique_uuid()), false, at(0)).await.unwrap());
}

/// What a process leaves that dies before the commit of a step: everything is as it was. The next one goes on
/// from there, and in the end everything is recorded once.
pub async fn a_crash_at_any_step_leaves_it_as_it_was(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let rows = [new_rows(one, 3), new_rows(two, 3)].concat();
    let import = ImportId(unique_uuid());
    let picture = async || {
        let staged = store.import_rows(import, None, 10).await.unwrap();
        let lists = [settlements(store, one, 10, 0).await, settlements(store, two, 10, 0).await];
        (find(store, import).await, staged, lists.map(|list| (list.total, list.rows)))
    };
    let steps = ["begin", "stage", "stage", "accept", "take", "take", "take", "forget"];
    for (place, name) in steps.into_iter().enumerate() {
        let before = picture().await;
        for is_committed in [false, true] {
            let part = match name {
                "stage" => rows[3 * (place - 1)..3 * place].to_vec(),
                "take" => store.import_rows(import, None, 2).await.unwrap(),
                _ => Vec::new(),
            };
            let (mut tx, lock) = locked(store, &part).await;
            match name {
                "begin" => assert!(tx.import_begin(import, false, at(0)).await.unwrap()),
                "stage" => {
                    let batch = tx.import_stage(&lock, import, &part, at(1)).await.unwrap();
                    assert_eq!(batch, Some(StagedBatch { staged: 3, ..StagedBatch::default() }));
                }
                "accept" => assert!(tx.import_accept(import, 6, at(2)).await.unwrap()),
                "take" => assert!(take(&mut *tx, &lock, import, part).await.is_some()),
                _ => tx.import_forget(import).await.unwrap(),
            }
            if is_committed {
                tx.commit().await.unwrap();
            } else {
                drop(tx);
                assert_eq!(picture().await, before, "{name}");
            }
        }
        assert_ne!(picture().await, before, "{name}");
    }
    assert_eq!((total(store, one).await, total(store, two).await), (3, 3));
    assert_eq!(find(store, import).await, None);
}

/// A batch may have as many rows as one that is recorded.
pub async fn a_whole_batch_is_staged(store: &dyn Store) {
    let merchant = merchant(store).await;
    let import = begin(store).await;
    let rows = new_rows(merchant, BATCH_MAX as u64);
    assert_eq!(stage(store, import, &rows).await, BATCH_MAX);
    assert!(accept(store, import, BATCH_MAX as u64).await);
    assert_eq!(step(store, import, u32::MAX).await.recorded, BATCH_MAX as u64);
    assert_eq!(total(store, merchant).await, BATCH_MAX as u64);
}
