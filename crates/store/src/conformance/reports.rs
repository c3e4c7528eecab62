//! Reports: each operation counts once, and what was not listed is found.

use std::time::Duration;

use settle_domain::ids::{OperationId, PaymentId, ReportId};
use settle_domain::operation::{OperationKind, OperationStatus};
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;

use super::fixtures::{at, merchant, unique_uuid};
use super::operations::{learn_at, operation, prepare};
use super::payments::{create, payment};
use crate::{Finding, OperationRow, Report, Store, Unlisted};

async fn begin(store: &dyn Store, second: u64) -> Report {
    let report = Report {
        report_id: ReportId(unique_uuid()),
        provider: "sandbox".parse().unwrap(),
        since: at(1),
        started_at: at(second),
        ended_at: None,
        listed: 0,
        findings: 0,
    };
    let mut tx = store.begin().await.unwrap();
    tx.report_begin(&report).await.unwrap();
    tx.commit().await.unwrap();
    report
}

/// Adds a page, and gives the operations of which something was found for the first time.
async fn add(
    store: &dyn Store,
    report: ReportId,
    listed: &[OperationId],
    findings: &[Finding],
) -> Vec<(OperationId, FindingKind)> {
    let mut tx = store.begin().await.unwrap();
    let mut new = tx.report_add(report, listed, findings).await.unwrap();
    tx.commit().await.unwrap();
    new.sort();
    new
}

/// A page that is added twice, as after a crash, counts once; reports are listed with the newest first, and
/// findings in pages.
pub async fn a_report_counts_each_operation_once(store: &dyn Store) {
    let (first, second) = (begin(store, 10).await, begin(store, 20).await);
    // The first is of what the provider lists without a name.
    let listed = [OperationId::NIL, OperationId(unique_uuid()), OperationId(unique_uuid())];
    let finding = |operation_id, kind| Finding {
        operation_id,
        kind,
        merchant_id: None,
        payment_id: Some(PaymentId(unique_uuid())),
        found_at: at(12),
        ours: None,
        theirs: Some(r#"{"status": "succeeded"}"#.to_owned()),
    };
    let found = [
        finding(listed[0], FindingKind::OtherAmounts),
        finding(listed[1], FindingKind::UnknownToUs),
        finding(listed[2], FindingKind::Returned),
    ];
    let key = |finding: &Finding| (finding.operation_id, finding.kind);
    let mut keys: Vec<_> = found[..2].iter().map(key).collect();
    keys.sort();
    assert_eq!(add(store, first.report_id, &listed, &found[..2]).await, keys);
    assert_eq!(add(store, first.report_id, &listed, &found[..2]).await, []);
    add(store, first.report_id, &[], &found).await;
    let mut tx = store.begin().await.unwrap();
    tx.report_end(first.report_id, at(30)).await.unwrap();
    tx.commit().await.unwrap();
    let whole = Report { ended_at: Some(at(30)), listed: 3, findings: 3, ..first.clone() };
    assert_eq!(store.report_list(None, 10).await.unwrap(), [second.clone(), whole.clone()]);
    let before = store.report_list(Some(second.report_id), 10).await.unwrap();
    assert_eq!(before, std::slice::from_ref(&whole));
    assert_eq!(store.report_list(None, 1).await.unwrap(), [second]);
    assert_eq!(store.report_find(first.report_id).await.unwrap(), Some(whole));
    assert_eq!(store.report_find(ReportId(unique_uuid())).await.unwrap(), None);
    let page = store.report_findings(first.report_id, None, 2).await.unwrap();
    assert_eq!(page, found[..2]);
    let page = store.report_findings(first.report_id, Some(page[1].operation_id), 2).await.unwrap();
    assert_eq!(page, found[2..]);
}

/// Of a provider's operations of a time, those that it had accepted and has not listed; in steps over all.
pub async fn what_was_accepted_and_not_listed_is_found_in_steps(store: &dyn Store) {
    let owner = merchant(store).await;
    let report = begin(store, 10).await;
    let mut rows = Vec::new();
    for (number, status) in
        OperationStatus::ALL.iter().copied().chain([OperationStatus::Succeeded]).enumerate()
    {
        let row = payment(owner, &format!("pix {number}"), at(1));
        create(store, std::slice::from_ref(&row)).await;
        let mut asked = operation(owner, row.payment_id, OperationKind::Payout, 1);
        (asked.status, asked.is_live) = (status, !status.is_closed());
        prepare(store, &asked).await.unwrap();
        rows.push(asked);
    }
    let listed = rows.pop().unwrap();
    add(store, report.report_id, &[listed.operation_id], &[]).await;
    // PostgreSQL counts from its own clock, SQLite from the one that is given.
    let asked = Unlisted {
        report_id: report.report_id,
        provider: "sandbox".parse().unwrap(),
        from: Timestamp::MIN,
        until: Timestamp::MAX,
    };
    let mut expected: Vec<OperationId> = rows
        .iter()
        .filter(|row| {
            use OperationStatus::{Accepted, Returned, Succeeded};
            matches!(row.status, Accepted | Returned | Succeeded)
        })
        .map(|row| row.operation_id)
        .collect();
    expected.sort();
    let (mut found, mut after, mut steps) = (Vec::<OperationRow>::new(), None, 0);
    loop {
        let (page, next) = store.report_unlisted(&asked, after, 3, at(20)).await.unwrap();
        found.extend(page);
        steps += 1;
        after = next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(found.iter().map(|row| row.operation_id).collect::<Vec<_>>(), expected);
    assert_eq!(steps, 3, "8 operations, 3 a step");
    for narrower in [
        Unlisted { provider: "other".parse().unwrap(), ..asked.clone() },
        Unlisted { until: Timestamp::MIN.plus(Duration::from_secs(1)), ..asked.clone() },
        Unlisted { from: Timestamp::MAX, ..asked.clone() },
    ] {
        let (page, _) = store.report_unlisted(&narrower, None, 100, at(20)).await.unwrap();
        assert_eq!(page, [], "{narrower:?}");
    }
}

/// Only the report's own, and no more than was asked for at once.
pub async fn what_was_listed_is_forgotten_in_steps(store: &dyn Store) {
    let (one, other) = (begin(store, 10).await, begin(store, 20).await);
    let listed: Vec<OperationId> = (0..5).map(|_| OperationId(unique_uuid())).collect();
    add(store, one.report_id, &listed, &[]).await;
    add(store, other.report_id, &listed, &[]).await;
    for expected in [3, 2, 0] {
        let mut tx = store.begin().await.unwrap();
        assert_eq!(tx.report_forget(one.report_id, 3).await.unwrap(), expected);
        tx.commit().await.unwrap();
    }
    add(store, other.report_id, &listed, &[]).await;
    assert_eq!(store.report_find(other.report_id).await.unwrap().unwrap().listed, 5, "still known");
}

/// A provider must have listed what came to its status in the time that is asked about, whenever it was
/// prepared; to learn the same once more is no other status.
pub async fn what_became_known_later_counts_from_then(store: &dyn Store) {
    let owner = merchant(store).await;
    let report = begin(store, 10).await;
    let row = payment(owner, "pix", at(1));
    create(store, std::slice::from_ref(&row)).await;
    let payout = operation(owner, row.payment_id, OperationKind::Payout, 1);
    prepare(store, &payout).await.unwrap();
    let is_found = async |from: u64, until: u64| {
        let provider = payout.provider.clone();
        let asked = Unlisted { report_id: report.report_id, provider, from: at(from), until: at(until) };
        let (found, _) = store.report_unlisted(&asked, None, 100, at(20)).await.unwrap();
        found.iter().any(|found| found.operation_id == payout.operation_id)
    };
    learn_at(store, &payout, (OperationStatus::Unknown, true), at(2_000)).await.unwrap();
    assert!(!is_found(0, 9_000).await, "nobody knows whether they have it");
    learn_at(store, &payout, (OperationStatus::Succeeded, true), at(3_000)).await.unwrap();
    assert!(is_found(3_000, 3_001).await);
    assert!(!is_found(0, 3_000).await && !is_found(3_001, 9_000).await);
    learn_at(store, &payout, (OperationStatus::Succeeded, true), at(4_000)).await.unwrap();
    assert!(is_found(3_000, 3_001).await, "it was known");
    learn_at(store, &payout, (OperationStatus::Returned, false), at(5_000)).await.unwrap();
    assert!(is_found(5_000, 5_001).await);
}
