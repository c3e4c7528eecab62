#!/usr/bin/env python3
"""A merchant clears its endpoint while a million deliveries wait. The rows come straight from SQL.

Bound: the PUT answers within 100 ms, all rows are dead within a minute, and another merchant's reads and arrivals have
at most twice the p99 of a quiet service, or 50 ms.
"""

import contextlib
import os
import sqlite3
import subprocess
import time
import uuid

import common

QUIET_SECONDS = 10
ALL_DEAD_SECONDS_MAX = 600
PUT_MS_MAX = 100
ALL_DEAD_SECONDS_GOAL = 60

COLUMNS = (
    "merchant_id, delivery_id, settlement_id, event_type, status, attempts, {epoch} created_at, next_attempt_at, url"
)


def has_epoch(columns: list[str]) -> str:
    """Binaries of before have no such column."""
    return "endpoint_epoch," if "endpoint_epoch" in columns else ""


def fill_sqlite(path: str, merchant: str, rows: int) -> None:
    now = int(time.time() * 1e6) + 3_600_000_000
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
        epoch = has_epoch([column[1] for column in database.execute("PRAGMA table_info (deliveries)")])
        zero = "0," if epoch else ""
        owner = uuid.UUID(merchant).bytes
        insert = (
            f"INSERT INTO deliveries ({COLUMNS.format(epoch=epoch)}) "
            f"VALUES (?1, ?2, ?2, 'settlement.completed', 'pending', 0, {zero} ?3, ?3, 'http://127.0.0.1:49999/')"
        )
        ids = (now * 2**64 + each for each in range(rows))
        values = ((owner, (each % 2**128).to_bytes(16, "big"), now) for each in ids)
        with database:
            database.executemany(insert, values)
            database.execute(
                "UPDATE merchant_counts SET deliveries_pending = deliveries_pending + ?2, next_due_at = ?3 "
                "WHERE merchant_id = ?1",
                (owner, rows, now),
            )
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'delivery_totals'").fetchone():
                database.execute("UPDATE delivery_totals SET pending = pending + ?1", (rows,))


def psql(sql: str) -> str:
    command = ["psql", os.environ["TEST_POSTGRES_URL"], "-v", "ON_ERROR_STOP=1", "-qAtc", sql]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def fill_postgres(merchant: str, rows: int) -> None:
    columns = psql("SELECT column_name FROM information_schema.columns WHERE table_name = 'deliveries'").split()
    epoch = has_epoch(columns)
    zero = "0," if epoch else ""
    # A merchant is never due later than the first of its deliveries.
    due = psql("SELECT now() + interval '1 hour'").strip()
    psql(
        f"INSERT INTO deliveries ({COLUMNS.format(epoch=epoch)}) "
        f"SELECT '{merchant}', lpad(to_hex(n), 32, '0')::uuid, gen_random_uuid(), 'settlement.completed', 'pending', "
        f"0, {zero} now(), '{due}', 'http://127.0.0.1:49999/' FROM generate_series(1, {rows}) AS n"
    )
    psql(
        f"UPDATE merchant_counts SET deliveries_pending = deliveries_pending + {rows}, "
        f"next_due_at = '{due}' WHERE merchant_id = '{merchant}'"
    )
    if psql("SELECT to_regclass('delivery_totals')").strip():
        psql(f"UPDATE delivery_totals SET pending = pending + {rows} WHERE slot = 0")
    psql("VACUUM ANALYZE deliveries")
    use_log_segments_again()


def use_log_segments_again() -> None:
    """A server that has run for a while writes its log into old segments. A new one makes each when it is needed, and
    whoever commits at that moment waits for it, some 20 ms: so it makes a gigabyte of them now."""
    switch = "PERFORM pg_logical_emit_message(false, 'settle', 'a segment'); PERFORM pg_switch_wal();"
    psql(f"DO $$ BEGIN FOR number IN 1..64 LOOP {switch} END LOOP; END $$")
    psql("CHECKPOINT")


def total(port: int, key: str, status: str) -> int:
    answer, body = common.call(port, "GET", f"/v1/webhook/deliveries?limit=1&status={status}", key)
    if answer != 200:
        raise SystemExit(f"the list answers with {answer}: {body!r}")
    return common.json.loads(body)["total"]


def watch(running: common.Running, beside: tuple[str, str], token: str, seconds) -> tuple[common.Probe, common.Arrivals]:
    """Reads and arrivals of another merchant while `seconds` lasts."""
    merchant, key = beside
    reads = common.Probe(running.api, "/v1/settlements?limit=20", key)
    arrivals = common.Arrivals(running.operator, token, merchant)
    with reads, arrivals:
        seconds()
    return reads, arrivals


def main() -> None:
    given = common.arguments(__doc__, rows=1_000_000)
    settings = {
        "SETTLE_WEBHOOK__ALLOW_HTTP": "true",
        "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8",
        "SETTLE_API__REQUESTS_PER_SECOND": "0",
    }
    with common.service(given, **settings) as service:
        service.run("migrate")
        merchant, key = service.merchant("clears")
        beside = service.merchant("beside")
        token = service.operator()
        service.import_settlements(beside[0], 1_000)
        with service.serve() as running:
            endpoint = {"webhook_url": "http://127.0.0.1:49999/", "webhook_secret": "whsec-clearing-secret"}
            status, body = common.call(running.api, "PUT", "/v1/webhook", key, endpoint)
            if status != 200:
                raise SystemExit(f"the endpoint is refused: {body!r}")
            if given.store == "sqlite":
                fill_sqlite(str(service.folder / "settle.db"), merchant, given.rows)
            else:
                fill_postgres(merchant, given.rows)
            quiet = watch(running, beside, token, lambda: time.sleep(QUIET_SECONDS))
            figures = {}

            def clear() -> None:
                started = time.monotonic()
                put = common.call(running.api, "PUT", "/v1/webhook", key, {"webhook_url": None})
                figures["status"], figures["put"] = put[0], (time.monotonic() - started) * 1_000
                left = total(running.api, key, "pending")
                while left and time.monotonic() - started < ALL_DEAD_SECONDS_MAX:
                    time.sleep(0.2)
                    left = total(running.api, key, "pending")
                figures["seconds"], figures["left"] = time.monotonic() - started, left

            loud = watch(running, beside, token, clear)
            dead = total(running.api, key, "dead")
    print(
        f"clearing, {given.store}, {given.rows} rows: PUT {figures['status']} in {figures['put']:.0f} ms, "
        f"{dead} dead and {figures['left']} left after {figures['seconds']:.1f} s"
    )
    for what, before, beside_it in (("reads", quiet[0], loud[0]), ("arrivals", quiet[1], loud[1])):
        print(f"  another's {what}, quiet:  {before.words()}\n  another's {what}, beside: {beside_it.words()}")
    verdict = common.Verdict()
    verdict.holds(f"the PUT: {figures['status']}, must be 200", figures["status"] == 200)
    verdict.at_most("the PUT", figures["put"], PUT_MS_MAX, " ms")
    verdict.at_least("dead", dead, given.rows)
    verdict.at_most("until all are dead", figures["seconds"], ALL_DEAD_SECONDS_GOAL, " s")
    verdict.unaffected("another's reads", quiet[0], loud[0])
    verdict.unaffected("another's arrivals", quiet[1], loud[1])
    verdict.end()


if __name__ == "__main__":
    main()
