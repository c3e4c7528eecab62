#!/usr/bin/env python3
"""Imports many settlements of one merchant while its own writers want its lock, and others list and record theirs.

Bound: the p99 of the others' lists and of their recordings is at most twice the quiet one, or 50 ms.

    scripts/attacks/locked_merchant.py --binary target/release/settle --store postgres
"""

import json
import multiprocessing
import threading
import time
from multiprocessing.synchronize import Event

import common

WRITERS = 24
QUIET_SECONDS = 8


def write(port: int, key: str, stop: Event, answers: "multiprocessing.Queue[dict[int, int]]") -> None:
    """Many that want the merchant's lock, in a process of their own: they must not slow down the client that measures."""
    statuses: list[int] = []

    def one() -> None:
        while not stop.is_set():
            statuses.append(common.call(port, "PUT", "/v1/webhook", key, {"webhook_url": None})[0])

    threads = [threading.Thread(target=one, daemon=True) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    stop.wait()
    deadline = time.monotonic() + 15
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    answers.put({status: statuses.count(status) for status in sorted(set(statuses))})


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0], rows=100_000)
    with common.service(given, SETTLE_API__REQUESTS_PER_SECOND="0") as service:
        locked, locked_key = service.merchant("Locked")
        other, other_key = service.merchant("Other")
        token = service.operator()
        service.import_settlements(other, 1_000)
        # Written before anything is measured: it would slow down the clients that measure, in the same process.
        file = service.settlements_file(given.rows)
        with service.serve() as running:

            def others() -> tuple[common.Probe, common.Arrivals]:
                lists = common.Probe(running.api, "/v1/settlements?limit=50", other_key)
                return lists, common.Arrivals(running.operator, token, other)

            quiet = others()
            with quiet[0], quiet[1]:
                time.sleep(QUIET_SECONDS)

            # Forked while this process has no other thread.
            forked = multiprocessing.get_context("fork")
            stop, answers = forked.Event(), forked.Queue()
            writers = forked.Process(target=write, args=(running.api, locked_key, stop, answers), daemon=True)
            beside = others()
            began = time.monotonic()
            writers.start()
            with beside[0], beside[1]:
                service.run("settlement", "import", str(file), "--merchant", locked)
                took = time.monotonic() - began
            stop.set()
            answered = answers.get(timeout=30)
            writers.join(15)
            imported = json.loads(common.call(running.api, "GET", "/v1/settlements?limit=1", locked_key)[1])["total"]
    print(
        f"beside an import of {given.rows:,} rows ({took:.0f} s) and {WRITERS} writers of its merchant, answered "
        f"{answered}"
    )
    verdict = common.Verdict()
    verdict.at_least("imported", imported, given.rows)
    for what, before, meanwhile in zip(("lists", "recordings"), quiet, beside):
        print(f"  others' {what}, quiet:  {before.words()}\n  others' {what}, beside: {meanwhile.words()}")
        verdict.unaffected(f"others' {what}", before, meanwhile)
    verdict.end()


main()
