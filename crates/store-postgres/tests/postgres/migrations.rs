//! What earlier versions have stored is found after the steps that give it another shape.

use settle_store::Store;
use settle_store::conformance::payments::a_pay_in_that_was_recorded_by_hand_is_no_payment;
use settle_store_postgres::testing::{scratch_url, session, store_at, take_steps};
use sqlx::Executor;
use sqlx::error::DatabaseError;

/// What belongs to payments is found by them.
#[tokio::test]
async fn payments_keep_what_is_theirs_when_they_get_their_numbers() {
    const BEFORE: usize = 16;
    let url = scratch_url().await;
    take_steps(&url, BEFORE).await;
    let mut session = session(&url).await;
    let fill = "
        INSERT INTO payments (merchant_id, payment_id, payin_source, payin_reference, state, version,
                              created_at, changed_at, due_at, is_open, request, progress)
        SELECT md5((n % 2)::text)::uuid, md5('p' || n)::uuid, 'default', 'pix ' || n, 'quoted', 3, now(), now(),
               now(), true, '{}', '{}' FROM generate_series(1, 9) AS n;
        INSERT INTO payment_pricing SELECT merchant_id, payment_id, payin_reference FROM payments;
        INSERT INTO payment_steps SELECT merchant_id, payment_id, 2, now(), payin_reference FROM payments;
        INSERT INTO payment_steps SELECT merchant_id, payment_id, 1, now(), payin_reference FROM payments;
        INSERT INTO operations (merchant_id, payment_id, kind, attempt, operation_id, provider, status, is_live,
                                prepared_at, request, memory)
        SELECT merchant_id, payment_id, 'payout', 1, payment_id, 'bank', 'unknown', true, now(),
               payin_reference, '{}' FROM payments;
        DELETE FROM payments WHERE payin_reference = 'pix 9'";
    session.execute(fill).await.unwrap();
    store_at(&url, 1).migrate().await.unwrap();
    let own = "
        SELECT p.payin_reference, c.pricing, s.step, o.request
        FROM payments AS p
        JOIN payment_pricing AS c ON c.merchant_id = p.merchant_id AND c.payment_number = p.number
        JOIN payment_steps AS s ON s.merchant_id = p.merchant_id AND s.payment_number = p.number
        JOIN operations AS o ON o.merchant_id = p.merchant_id AND o.payment_number = p.number
            AND o.payment_id = p.payment_id";
    let rows: Vec<(String, String, String, String)> =
        sqlx::query_as(own).fetch_all(&mut session).await.unwrap();
    assert_eq!(rows.len(), 16, "two steps of each of the eight payments that are there");
    for (payment, pricing, step, operation) in rows {
        assert_eq!([&pricing, &step, &operation], [&payment; 3]);
    }
    let lost = "SELECT request FROM operations WHERE payment_number < 0";
    let lost: Vec<String> = sqlx::query_scalar(lost).fetch_all(&mut session).await.unwrap();
    assert_eq!(lost, ["pix 9"], "it may have moved money, whatever became of its payment");
    let second = "
        INSERT INTO operations (merchant_id, payment_number, payment_id, kind, attempt, operation_id, provider,
                                status, is_live, prepared_at, request, memory)
        SELECT merchant_id, number, payment_id, 'refund', 1, gen_random_uuid(), 'bank', 'prepared', true, now(),
               '{}', '{}' FROM payments LIMIT 1";
    let refused = session.execute(second).await.unwrap_err();
    let is_duplicate = refused.as_database_error().is_some_and(DatabaseError::is_unique_violation);
    assert!(is_duplicate, "a payment has one live payout or refund: {refused}");
}

/// A version that does not know the column of the pay-in leaves it empty.
#[tokio::test]
async fn pay_ins_that_an_earlier_version_has_recorded_are_found() {
    let url = scratch_url().await;
    let store = store_at(&url, 2);
    store.migrate().await.unwrap();
    let earlier = "
        CREATE FUNCTION earlier() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN NEW.payin_reference := NULL; RETURN NEW; END';
        CREATE TRIGGER earlier BEFORE INSERT ON settlements FOR EACH ROW EXECUTE FUNCTION earlier()";
    session(&url).await.execute(earlier).await.unwrap();
    a_pay_in_that_was_recorded_by_hand_is_no_payment(&store).await;
}

/// A start looks first whether there is anything to do. What is not as it should be, the migrator refuses.
#[tokio::test]
async fn steps_that_are_not_those_of_this_version_are_refused() {
    let url = scratch_url().await;
    let store = store_at(&url, 2);
    store.migrate().await.unwrap();
    store.migrate().await.unwrap();
    for (change, back, words) in [
        (
            "UPDATE _sqlx_migrations SET checksum = checksum || 'x' WHERE version = 3",
            "UPDATE _sqlx_migrations SET checksum = substr(checksum, 1, 48) WHERE version = 3",
            "migration 3 was previously applied but has been modified",
        ),
        (
            "UPDATE _sqlx_migrations SET success = false WHERE version = 18",
            "UPDATE _sqlx_migrations SET success = true",
            "migration 18 is partially applied",
        ),
        (
            "INSERT INTO _sqlx_migrations SELECT 999, '', now(), true, 'x', 1",
            "DELETE FROM _sqlx_migrations WHERE version = 999",
            "later version",
        ),
    ] {
        session(&url).await.execute(change).await.unwrap();
        let refused = store.migrate().await.unwrap_err();
        let said = std::error::Error::source(&refused).map_or(refused.to_string(), ToString::to_string);
        assert!(said.contains(words), "{change}: {said}");
        session(&url).await.execute(back).await.unwrap();
        store.migrate().await.unwrap();
    }
}
