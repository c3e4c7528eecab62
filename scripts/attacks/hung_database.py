#!/usr/bin/env python3
"""Lets PostgreSQL hang, and then refuse connections, while merchants and operators ask; then lets it recover.

Bound: each request, first or later, gets 503: within 5 s of a database that hangs, within 1 s of one that refuses. Each
operation is asked on connections that worked until then, and then again and again, alone and many at once.

    scripts/attacks/hung_database.py --binary target/release/settle --store postgres
"""

import os
import threading
import time
import uuid
from urllib.parse import urlsplit

import common
from proxy import Proxy

HUNG_SECONDS_MAX = 5
REFUSED_SECONDS_MAX = 1
# One after the other, of which the first meets connections that worked; and then so many at once.
REQUESTS = 4
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
            api, redeliver = running.api, f"/v1/webhook/deliveries/{uuid.uuid4()}/redeliver"
            # What asks the database, and its status when the database is well: there are no deliveries, and no endpoint.
            asks = {
                "GET settlements": (lambda: common.call(api, "GET", "/v1/settlements", key), 200),
                "GET deliveries": (lambda: common.call(api, "GET", "/v1/webhook/deliveries", key), 200),
                "GET webhook": (lambda: common.call(api, "GET", "/v1/webhook", key), 200),
                "PUT webhook": (lambda: common.call(api, "PUT", "/v1/webhook", key, {"webhook_url": None}), 200),
                "POST redeliver": (lambda: common.call(api, "POST", redeliver, key), 404),
                "POST test": (lambda: common.call(api, "POST", "/v1/webhook/test", key), 409),
                "POST settlements": (
                    lambda: common.call(running.operator, "POST", "/operator/v1/settlements", token, row),
                    200,
                ),
            }

            def recover(name: str) -> float:
                """Seconds until every operation works again."""
                started = time.monotonic()
                while not all(ask()[0] == status for ask, status in asks.values()):
                    if time.monotonic() - started > RECOVER_SECONDS_MAX:
                        raise SystemExit(f"{name}: it does not recover")
                    time.sleep(0.1)
                return time.monotonic() - started

            def attack(name: str, begin, seconds_max: float) -> None:
                recovered = 0.0
                for what, (ask, _) in asks.items():
                    took, statuses = [], []

                    def measure() -> None:
                        started = time.monotonic()
                        try:
                            statuses.append(ask()[0])
                        except OSError:
                            statuses.append(0)
                        took.append(time.monotonic() - started)

                    begin()
                    for _ in range(REQUESTS):
                        measure()
                    threads = [threading.Thread(target=measure) for _ in range(TOGETHER)]
                    for thread in threads:
                        thread.start()
                    for thread in threads:
                        thread.join()
                    first, later = took[0], max(took[1:])
                    print(f"{name}: {what}: first {first:.2f} s, longest later {later:.2f} s, {set(statuses)}")
                    verdict.at_most(f"{what}, first", first, seconds_max, " s")
                    verdict.at_most(f"{what}, later", later, seconds_max, " s")
                    verdict.at_least(f"{what}, answered with 503", statuses.count(503), REQUESTS + TOGETHER)
                    proxy.recover()
                    recovered = max(recovered, recover(name))
                print(f"{name}: recovered {recovered:.1f} s after the database at the latest")

            recover("before the attack")
            attack("a database that hangs", proxy.hang, HUNG_SECONDS_MAX)
            attack("a database that refuses", proxy.refuse, REFUSED_SECONDS_MAX)
    verdict.end()


main()
