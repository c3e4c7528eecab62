//! Alerts: which deaths one alert counts, when it is due, and when it is done.

use std::time::Duration;

use settle_domain::alert::AlertKind;
use settle_domain::ids::{AlertId, DeliveryId, MerchantId};
use settle_domain::seams::SeededEntropy;
use settle_domain::time::Timestamp;
use uuid::Uuid;

use super::fixtures::{at, merchant, unique_uuid};
use crate::{ALERT_IDS_MAX, Alert, Death, DueTime, MerchantLock, Occurrence, PutOff, Store, Tx};

/// The quiet time of the suite.
const QUIET: Duration = Duration::from_mins(5);
/// How long the suite holds the alerts that it takes.
const HOLD: Duration = Duration::from_secs(30);
/// Pings that together take longer than a few statements of another transaction.
const PINGS: usize = 100;
/// A URL with non-ASCII characters, and with characters that are special in an array literal.
const URL: &str = "https://merchant.example/hook?a=“b”,{c}";

/// A death at the given endpoint.
#[must_use]
pub fn death(merchant: MerchantId, url: &str, last_error: &str) -> Death {
    Death {
        merchant_id: merchant,
        url: url.to_owned(),
        delivery_id: DeliveryId(unique_uuid()),
        last_error: last_error.to_owned(),
    }
}

async fn raise_in(tx: &mut dyn Tx, deaths: &[Death], now: Timestamp) {
    let mut merchants: Vec<MerchantId> = deaths.iter().map(|death| death.merchant_id).collect();
    merchants.sort();
    merchants.dedup();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    let seed = u64::from_be_bytes(unique_uuid().as_bytes()[8..].try_into().unwrap());
    tx.alert_raise_many(&lock, deaths, now, QUIET, &SeededEntropy::new(seed)).await.unwrap();
}

/// Raises deaths, and commits.
pub async fn raise(store: &dyn Store, deaths: &[Death], now: Timestamp) {
    let mut tx = store.begin().await.unwrap();
    raise_in(&mut *tx, deaths, now).await;
    tx.commit().await.unwrap();
}

/// Takes the due alerts, and commits. `alert_any_due` must agree.
async fn take(store: &dyn Store, now: Timestamp) -> Vec<Alert> {
    take_few(store, now, 10).await
}

async fn take_few(store: &dyn Store, now: Timestamp, limit: u32) -> Vec<Alert> {
    take_due(store, DueTime::by(now), limit).await
}

async fn take_due(store: &dyn Store, due: DueTime, limit: u32) -> Vec<Alert> {
    let now = due.by;
    let any_due = store.alert_any_due(due).await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let mut alerts = tx.alert_take(due, now.plus(HOLD), limit).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(any_due, !alerts.is_empty());
    alerts.sort_by_key(|alert| alert.first_at);
    alerts
}

async fn take_one(store: &dyn Store, now: Timestamp) -> Alert {
    let mut alerts = take(store, now).await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    alerts.remove(0)
}

async fn sent(store: &dyn Store, alert: &Alert, now: Timestamp) {
    let mut tx = store.begin().await.unwrap();
    tx.alert_sent(&[(alert.merchant_id, alert.alert_id)], now).await.unwrap();
    tx.commit().await.unwrap();
}

/// Commits late, when another transaction has got as far as it can without this commit.
async fn commit_late(store: &dyn Store, tx: Box<dyn Tx>) {
    for _ in 0..PINGS {
        store.ping().await.unwrap();
    }
    tx.commit().await.unwrap();
}

/// Deaths come in one transaction or in several. The last death gives the error; the first and the last give
/// the times.
pub async fn deaths_of_one_endpoint_are_one_alert_that_counts(store: &dyn Store) {
    let merchant = merchant(store).await;
    let [a, b, c] = ["timeout", "refused", "“TLS” {,}"].map(|error| death(merchant, URL, error));
    raise(store, &[a.clone(), b.clone()], at(10)).await;
    raise(store, std::slice::from_ref(&c), at(20)).await;
    let alert = take_one(store, at(20)).await;
    let expected = Alert {
        alert_id: alert.alert_id,
        merchant_id: merchant,
        kind: AlertKind::DeliveriesDead,
        subject: URL.to_owned(),
        occurrences: 3,
        ids: vec![a.delivery_id.0, b.delivery_id.0, c.delivery_id.0],
        last_text: "“TLS” {,}".to_owned(),
        first_at: at(10),
        last_at: at(20),
        attempts: 1,
    };
    assert_eq!(alert, expected);
}

/// A clock that was a day ahead for a while put alerts off; they are due once it is right again.
pub async fn what_a_clock_ahead_put_off_is_due(store: &dyn Store) {
    let merchant = merchant(store).await;
    let (now, ahead) = (at(100), at(100).plus(Duration::from_hours(24)));
    raise(store, &[death(merchant, URL, "timeout")], ahead).await;
    let due = |now: Timestamp| DueTime { by: now, beyond: now.plus(QUIET) };
    let alert = take_due(store, due(now), 10).await.pop().expect("it is due at once");
    let put_off = PutOff { merchant_id: merchant, alert_id: alert.alert_id, due_at: now.plus(QUIET) };
    let mut tx = store.begin().await.unwrap();
    tx.alert_put_off(&[put_off]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(take_due(store, due(now), 10).await, [], "an honest wait is waited for");
    assert_eq!(take_due(store, due(now.plus(QUIET)), 10).await.len(), 1);
}

/// The last alert was closed by a clock that was a day ahead: the next one waits for the quiet time from now.
pub async fn the_quiet_time_is_no_longer_after_a_clock_was_ahead(store: &dyn Store) {
    let merchant = merchant(store).await;
    let (now, ahead) = (at(100), at(100).plus(Duration::from_hours(24)));
    raise(store, &[death(merchant, URL, "timeout")], ahead).await;
    let first = take_one(store, ahead).await;
    sent(store, &first, ahead).await;
    raise(store, &[death(merchant, URL, "timeout")], now).await;
    assert_eq!(take(store, now).await, []);
    assert_eq!(take(store, now.plus(QUIET)).await.len(), 1);
}

/// The alert counts all deaths, whether they come together or one after the other.
pub async fn the_first_hundred_deliveries_are_named(store: &dyn Store) {
    let (one, other) = (merchant(store).await, merchant(store).await);
    let deaths = |merchant, number| -> Vec<Death> {
        std::iter::repeat_with(|| death(merchant, URL, "timeout")).take(number).collect()
    };
    let ids = |deaths: &[Death]| -> Vec<Uuid> {
        deaths.iter().map(|death| death.delivery_id.0).take(ALERT_IDS_MAX).collect()
    };
    let together = deaths(one, ALERT_IDS_MAX + 30);
    raise(store, &together, at(1)).await;
    let (some, more) = (deaths(other, ALERT_IDS_MAX - 2), deaths(other, 5));
    raise(store, &some, at(2)).await;
    raise(store, &more, at(3)).await;
    let alerts = take(store, at(3)).await;
    assert_eq!((alerts[0].occurrences, &alerts[0].ids), (130, &ids(&together)));
    assert_eq!((alerts[1].occurrences, &alerts[1].ids), (103, &ids(&[some, more].concat())));
}

/// Another URL of the same merchant is another endpoint, and so is the same URL of another merchant.
pub async fn each_endpoint_has_an_alert_of_its_own(store: &dyn Store) {
    let (one, other) = (merchant(store).await, merchant(store).await);
    let deaths = [
        death(one, URL, "a"),
        death(one, "https://merchant.example/", "b"),
        death(other, URL, "c"),
        death(one, URL, "d"),
    ];
    raise(store, &deaths, at(1)).await;
    let mut found: Vec<(String, u64)> =
        take(store, at(1)).await.into_iter().map(|alert| (alert.last_text, alert.occurrences)).collect();
    found.sort();
    assert_eq!(found, [("b".to_owned(), 1), ("c".to_owned(), 1), ("d".to_owned(), 2)]);
}

/// Later deaths open another alert, due when the quiet time has passed.
pub async fn a_taken_alert_is_closed_and_the_next_waits(store: &dyn Store) {
    let merchant = merchant(store).await;
    raise(store, &[death(merchant, URL, "first")], at(0)).await;
    let first = take_one(store, at(5)).await;
    sent(store, &first, at(6)).await;
    raise(store, &[death(merchant, URL, "second")], at(7)).await;
    raise(store, &[death(merchant, URL, "third")], at(200)).await;
    assert_eq!(take(store, at(304)).await, [], "the quiet time has not passed");
    let second = take_one(store, at(305)).await;
    assert_ne!(second.alert_id, first.alert_id);
    assert_eq!((second.occurrences, second.first_at, second.last_at), (2, at(7), at(200)));
    sent(store, &second, at(306)).await;
    raise(store, &[death(merchant, URL, "fourth")], at(400)).await;
    assert_eq!(take(store, at(604)).await, [], "the last alert counts");
    let third = take_one(store, at(605)).await;
    sent(store, &third, at(606)).await;
    raise(store, &[death(merchant, URL, "late")], at(1_000)).await;
    assert_eq!(take_one(store, at(1_000)).await.last_text, "late", "it has been quiet for long");
}

/// They open the next alert, and its quiet time starts when the first one was closed.
pub async fn deaths_that_come_while_an_alert_is_taken_wait(store: &dyn Store) {
    let merchant = merchant(store).await;
    raise(store, &[death(merchant, URL, "first")], at(0)).await;
    let mut tx = store.begin().await.unwrap();
    let first = tx.alert_take(DueTime::by(at(5)), at(5).plus(HOLD), 1).await.unwrap().remove(0);
    let late = [death(merchant, URL, "late")];
    tokio::join!(raise(store, &late, at(6)), commit_late(store, tx));
    sent(store, &first, at(7)).await;
    assert_eq!(take(store, at(304)).await, []);
    assert_eq!((first.occurrences, take_one(store, at(305)).await.last_text.as_str()), (1, "late"));
}

/// A dropped transaction opens no alert and adds no death to one.
pub async fn what_is_not_committed_alerts_nobody(store: &dyn Store) {
    let merchant = merchant(store).await;
    let mut tx = store.begin().await.unwrap();
    raise_in(&mut *tx, &[death(merchant, URL, "lost")], at(0)).await;
    drop(tx);
    assert_eq!(take(store, at(1)).await, []);
    raise(store, &[death(merchant, URL, "kept")], at(2)).await;
    let mut tx = store.begin().await.unwrap();
    raise_in(&mut *tx, &[death(merchant, URL, "lost")], at(3)).await;
    drop(tx);
    // Once this transaction has the lock, the dropped one has ended.
    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[merchant]).await.unwrap();
    tx.commit().await.unwrap();
    let alert = take_one(store, at(4)).await;
    assert_eq!((alert.occurrences, alert.last_text.as_str()), (1, "kept"));
}

/// Nobody takes it again before its hold ends. If nobody marks it as sent, it is due again, unchanged.
pub async fn a_taken_alert_is_held(store: &dyn Store) {
    let merchant = merchant(store).await;
    raise(store, &[death(merchant, URL, "timeout")], at(0)).await;
    let alert = take_one(store, at(0)).await;
    assert_eq!(take(store, at(29)).await, []);
    assert_eq!(take_one(store, at(30)).await, Alert { attempts: 2, ..alert.clone() });
    sent(store, &alert, at(31)).await;
    raise(store, &[death(merchant, URL, "next")], at(32)).await;
    assert_eq!(take_one(store, at(300)).await.last_text, "next", "it was closed when it was first taken");
}

/// The second transaction finds nothing, whether it waits for the first or not.
pub async fn two_who_take_together_do_not_take_the_same(store: &dyn Store) {
    let merchant = merchant(store).await;
    raise(store, &[death(merchant, URL, "timeout")], at(0)).await;
    let mut first = store.begin().await.unwrap();
    assert_eq!(first.alert_take(DueTime::by(at(1)), at(1).plus(HOLD), 10).await.unwrap().len(), 1);
    let second = async {
        let mut tx = store.begin().await.unwrap();
        let taken = tx.alert_take(DueTime::by(at(1)), at(1).plus(HOLD), 10).await.unwrap();
        tx.commit().await.unwrap();
        taken
    };
    let (taken, ()) = tokio::join!(second, commit_late(store, first));
    assert_eq!(taken, []);
}

/// A node that puts it off afterwards changes nothing.
pub async fn a_sent_alert_is_done(store: &dyn Store) {
    let merchant = merchant(store).await;
    raise(store, &[death(merchant, URL, "timeout")], at(0)).await;
    let alert = take_one(store, at(0)).await;
    let mut tx = store.begin().await.unwrap();
    let unknown = (merchant, AlertId(unique_uuid()));
    tx.alert_sent(&[(merchant, alert.alert_id), unknown], at(1)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    let later = PutOff { merchant_id: merchant, alert_id: alert.alert_id, due_at: at(2) };
    tx.alert_put_off(&[later]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(take(store, Timestamp::MAX).await, []);
}

/// Each alert is due again at its own time.
pub async fn an_alert_that_was_put_off_comes_back(store: &dyn Store) {
    let merchant = merchant(store).await;
    raise(store, &[death(merchant, URL, "a")], at(0)).await;
    raise(store, &[death(merchant, "https://merchant.example/", "b")], at(1)).await;
    let taken = take(store, at(1)).await;
    let [a, b] = [(0, 50), (1, 10)].map(|(position, second): (usize, u64)| PutOff {
        merchant_id: merchant,
        alert_id: taken[position].alert_id,
        due_at: at(second),
    });
    let mut tx = store.begin().await.unwrap();
    tx.alert_put_off(&[a, b]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(take(store, at(9)).await, []);
    let again = take_one(store, at(10)).await;
    assert_eq!((again.alert_id, again.attempts), (b.alert_id, 2));
    sent(store, &again, at(11)).await;
    assert_eq!(take(store, at(49)).await, []);
    assert_eq!(take_one(store, at(50)).await.alert_id, a.alert_id);
}

/// A call under another merchant's id neither marks it as sent nor puts it off.
pub async fn an_alert_is_of_its_merchant(store: &dyn Store) {
    let (owner, other) = (merchant(store).await, merchant(store).await);
    raise(store, &[death(owner, URL, "timeout")], at(0)).await;
    let alert = take_one(store, at(0)).await;
    let mut tx = store.begin().await.unwrap();
    tx.alert_sent(&[(other, alert.alert_id)], at(1)).await.unwrap();
    let later = PutOff { merchant_id: other, alert_id: alert.alert_id, due_at: at(1_000) };
    tx.alert_put_off(&[later]).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(take_one(store, at(30)).await.alert_id, alert.alert_id);
}

/// Until it is sent, the next alert only counts, however long that takes.
pub async fn an_endpoint_has_one_alert_under_way(store: &dyn Store) {
    let merchant = merchant(store).await;
    raise(store, &[death(merchant, URL, "first")], at(0)).await;
    let first = take_one(store, at(0)).await;
    raise(store, &[death(merchant, URL, "second")], at(1)).await;
    for second in [1_000, 2_000] {
        raise(store, &[death(merchant, URL, "more")], at(second)).await;
        assert_eq!(take_one(store, at(second)).await.alert_id, first.alert_id);
    }
    sent(store, &first, at(2_001)).await;
    assert_eq!(take_one(store, at(2_001)).await.occurrences, 3);
}

/// The alerts due first come first.
pub async fn as_many_alerts_as_wanted_are_taken(store: &dyn Store) {
    let merchant = merchant(store).await;
    for (second, url) in [(3, "https://c"), (1, "https://a"), (2, "https://b")] {
        raise(store, &[death(merchant, url, "timeout")], at(second)).await;
    }
    let urls = async |limit| -> Vec<String> {
        take_few(store, at(4), limit).await.into_iter().map(|alert| alert.subject).collect()
    };
    assert_eq!(urls(2).await, ["https://a", "https://b"]);
    assert_eq!(urls(2).await, ["https://c"]);
    assert_eq!(urls(2).await, Vec::<String>::new());
}

fn occurrence(merchant: Option<MerchantId>, kind: AlertKind, subject: &str, text: &str) -> Occurrence {
    let id = Some(unique_uuid());
    Occurrence { merchant_id: merchant, kind, subject: subject.to_owned(), id, text: text.to_owned() }
}

async fn tell(store: &dyn Store, occurrences: &[Occurrence], now: Timestamp) {
    let mut merchants: Vec<MerchantId> =
        occurrences.iter().filter_map(|occurrence| occurrence.merchant_id).collect();
    merchants.sort();
    merchants.dedup();
    let mut tx = store.begin().await.unwrap();
    let lock: Option<MerchantLock> =
        if merchants.is_empty() { None } else { Some(tx.merchant_lock(&merchants).await.unwrap()) };
    let seed = u64::from_be_bytes(unique_uuid().as_bytes()[8..].try_into().unwrap());
    tx.alert_tell_many(lock.as_ref(), occurrences, now, QUIET, &SeededEntropy::new(seed)).await.unwrap();
    tx.commit().await.unwrap();
}

/// The same subject of another kind, of another merchant or of the whole house is another alert; each counts
/// its own, and one without ids counts as well.
pub async fn every_kind_has_alerts_of_its_own(store: &dyn Store) {
    let owner = merchant(store).await;
    let [review, returned] = [AlertKind::PaymentNeedsReview, AlertKind::PaymentReturned];
    let of_owner = |kind, text| occurrence(Some(owner), kind, "payout_outcome_unknown", text);
    let unnamed =
        |text| Occurrence { id: None, ..occurrence(None, AlertKind::ProviderCircuitOpen, "bank", text) };
    let (one, two, three) = (of_owner(review, "one"), of_owner(review, "two"), of_owner(returned, "three"));
    let dead = death(owner, "payout_outcome_unknown", "four");
    tell(store, &[one.clone(), two.clone(), three.clone(), unnamed("five")], at(1)).await;
    tell(store, &[unnamed("six")], at(2)).await;
    raise(store, std::slice::from_ref(&dead), at(3)).await;
    let mut told: Vec<_> = take(store, at(3)).await.into_iter().collect();
    told.sort_by(|a, b| a.last_text.cmp(&b.last_text));
    let told: Vec<_> = told
        .into_iter()
        .map(|alert| (alert.merchant_id, alert.kind, alert.occurrences, alert.ids, alert.last_text))
        .collect();
    let own = |kind, number, ids: &[Option<Uuid>], text: &str| {
        (owner, kind, number, ids.iter().copied().flatten().collect(), text.to_owned())
    };
    let expected = [
        own(AlertKind::DeliveriesDead, 1, &[Some(dead.delivery_id.0)], "four"),
        (MerchantId::NIL, AlertKind::ProviderCircuitOpen, 2, Vec::new(), "six".to_owned()),
        own(returned, 1, &[three.id], "three"),
        own(review, 2, &[one.id, two.id], "two"),
    ];
    assert_eq!(told, expected);
    tell(store, &[of_owner(review, "seven")], at(4)).await;
    assert_eq!(take(store, at(20)).await, [], "its last alert was told just now");
}

/// What happened first to a subject had no ids, what happened then had more than an alert names.
pub async fn a_subject_may_happen_with_ids_and_without(store: &dyn Store) {
    let unnamed = Occurrence { id: None, ..occurrence(None, AlertKind::BooksDisagree, "the books", "sums") };
    let named: Vec<Occurrence> = (0..=ALERT_IDS_MAX)
        .map(|number| occurrence(None, AlertKind::BooksDisagree, "the books", &number.to_string()))
        .collect();
    let ids: Vec<Uuid> = named.iter().filter_map(|named| named.id).collect();
    tell(store, std::slice::from_ref(&unnamed), at(1)).await;
    tell(store, &named, at(2)).await;
    tell(store, &[unnamed], at(3)).await;
    let told = take(store, at(4)).await;
    assert_eq!((told.len(), told[0].occurrences), (1, 3 + u64::try_from(ALERT_IDS_MAX).unwrap()));
    assert_eq!(told[0].ids, ids[..ALERT_IDS_MAX]);
}

/// What is a merchant's is not written without its lock.
pub async fn an_alert_of_a_merchant_needs_its_lock(store: &dyn Store) {
    let owner = merchant(store).await;
    let occurrence = occurrence(Some(owner), AlertKind::PaymentReturned, "returned", "text");
    let mut tx = store.begin().await.unwrap();
    let told = tx.alert_tell_many(None, &[occurrence], at(1), QUIET, &SeededEntropy::new(1)).await;
    assert!(told.is_err());
}
