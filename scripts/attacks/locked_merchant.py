#!/usr/bin/env python3
"""Imports many settlements of one merchant while its own writers want its lock, and measures the other merchants' lists
and their recordings before and meanwhile.

    scripts/attacks/locked_merchant.py --binary target/release/settle --store postgres
"""

import threading
import time

import common

WRITERS = 24
QUIET_SECONDS = 8


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0], rows=100_000)
    with common.service(given, SETTLE_API__REQUESTS_PER_SECOND="0") as service:
        locked, locked_key = service.merchant("Locked")
        other, other_key = service.merchant("Other")
        token = service.operator()
        service.import_settlements(other, 1_000)
        with service.serve() as running:
            path = "/v1/settlements?limit=50"
            ended = threading.Event()
            recorded: list[tuple[float, float, int]] = []

            def record() -> None:
                number = 0
                while not ended.is_set():
                    number += 1
                    row = common.settlement(number) | {"merchant_id": other}
                    started = time.monotonic()
                    status, _ = common.call(running.operator, "POST", "/operator/v1/settlements", token, row)
                    recorded.append((started, time.monotonic() - started, status))
                    ended.wait(0.05)

            recording = threading.Thread(target=record, daemon=True)
            recording.start()
            quiet = common.measure(running.api, path, other_key, QUIET_SECONDS)

            stop = threading.Event()
            answers: list[int] = []

            def write() -> None:
                while not stop.is_set():
                    answers.append(common.call(running.api, "PUT", "/v1/webhook", locked_key, {"webhook_url": None})[0])

            importing = threading.Thread(target=service.import_settlements, args=(locked, given.rows), daemon=True)
            writers = [threading.Thread(target=write, daemon=True) for _ in range(WRITERS)]
            began = time.monotonic()
            with common.Probe(running.api, path, other_key) as beside:
                for thread in (importing, *writers):
                    thread.start()
                importing.join()
            took = time.monotonic() - began
            stop.set()
            ended.set()
            for thread in (recording, *writers):
                thread.join(15)
            before = [each[1] for each in recorded if each[0] < began]
            meanwhile = [each for each in recorded if each[0] >= began]
    slowest = max((each[1] for each in meanwhile), default=float("nan"))
    failed = sum(each[2] != 200 for each in meanwhile)
    print(f"quiet: {quiet.words()}; recording at most {max(before):.2f} s")
    print(f"beside an import of {given.rows:,} rows ({took:.0f} s) and {WRITERS} writers of its merchant: {beside.words()}")
    print(f"recordings of others meanwhile: {len(meanwhile)}, the slowest {slowest:.2f} s, {failed} failed")
    print(f"p99 {beside.percentile(99) / quiet.percentile(99):.1f} x quiet; answers to the writers: "
          f"{ {status: answers.count(status) for status in sorted(set(answers))} }")


main()
