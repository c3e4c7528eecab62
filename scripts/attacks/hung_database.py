#!/usr/bin/env python3
"""Lets PostgreSQL hang, and then refuse connections, while merchants and operators ask; then lets it recover.

Bound: each request, first or later, gets 503: within 5 s of a database that hangs, within 1 s of one that refuses.

    scripts/attacks/hung_database.py --binary target/release/settle --store postgres
"""

import os
import statistics
import threading
import time
from urllib.parse import urlsplit

import common
from proxy import Proxy

HUNG_SECONDS_MAX = 5
REFUSED_SECONDS_MAX = 1
REQUESTS = 8
TOGETHER = 8
RECOVER_SECONDS_MAX = 120


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0])
    if given.store != "postgres":
        raise SystemExit("--store postgres: SQLite has no server that hangs")
    url = urlsplit(os.environ["TEST_POSTGRES_URL"])
    proxy = Proxy(url.hostname, url.port)
    os.environ["TEST_POSTGRES_URL"] = url._replace(netloc=f"{url.username}@127.0.0.1:{proxy.port}").geturl()
    verdict = common.Verdict()
    with common.service(given) as service:
        merchant, key = service.merchant("Hung")
        token = service.operator()
        with service.serve() as running:
            row = common.settlement(1) | {"merchant_id": merchant}
            asks = {
                "GET settlements": lambda: common.call(running.api, "GET", "/v1/settlements", key),
                "PUT webhook": lambda: common.call(running.api, "PUT", "/v1/webhook", key, {"webhook_url": None}),
                "POST settlements": lambda: common.call(running.operator, "POST", "/operator/v1/settlements", token, row),
            }

            def attack(name: str, begin, seconds_max: float) -> None:
                begin()
                for what, ask in asks.items():
                    took, statuses = [], []

                    def measure() -> None:
                        started = time.monotonic()
                        try:
                            statuses.append(ask()[0])
                        except OSError:
                            statuses.append(0)
                        took.append(time.monotonic() - started)

                    for _ in range(REQUESTS):
                        measure()
                    threads = [threading.Thread(target=measure) for _ in range(TOGETHER)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    print(
                        f"{name}: {what}: first {took[0]:.2f} s, median {statistics.median(took):.2f} s, "
                        f"longest {max(took):.2f} s, {set(statuses)}"
                    )
                    verdict.at_most(what, max(took), seconds_max, " s")
                    answered = statuses.count(503)
                    verdict.at_least(f"{what}, answered with 503", answered, REQUESTS + TOGETHER)
                proxy.recover()
                started = time.monotonic()
                while any(ask()[0] != 200 for ask in asks.values()):
                    if time.monotonic() - started > RECOVER_SECONDS_MAX:
                        raise SystemExit(f"{name}: it does not recover")
                    time.sleep(0.1)
                print(f"{name}: recovered {time.monotonic() - started:.1f} s after the database")

            for ask in asks.values():
                ask()
            attack("a database that hangs", proxy.hang, HUNG_SECONDS_MAX)
            time.sleep(2)
            attack("a database that refuses", proxy.refuse, REFUSED_SECONDS_MAX)
    verdict.end()


main()
