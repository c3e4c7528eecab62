#!/usr/bin/env python3
"""Swallows every open connection to PostgreSQL under load, as a firewall does that has forgotten them.

Bound: it records again within 20 s, sends what came after that within 45 s, and lets nothing wait for longer to be sent;
/readyz says ready for at most 30 s while nothing is recorded or sent, and in the end; and SIGTERM ends it.

    scripts/attacks/half_open.py --binary target/release/settle --store postgres
"""

import bisect
import http.server
import json
import math
import os
import threading
import time
from collections.abc import Iterable
from urllib.parse import urlsplit

import common
from proxy import Proxy

WRITERS = 4
READERS = 12
# How long the load goes on before the connections vanish, and after. The lease runs out meanwhile.
BEFORE_SECONDS = 5
AFTER_SECONDS = 75
RECORDING_SECONDS_MAX = 20
SENDING_SECONDS_MAX = 45
# A dispatcher that is absent makes the service not ready after 15 s, and no call takes longer than 15 s to be given up.
READY_SECONDS_MAX = 30


class Receiver(http.server.BaseHTTPRequestHandler):
    """Remembers when settlements arrived."""

    arrived: dict[str, float] = {}

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        Receiver.arrived.setdefault(json.loads(body)["settlement_id"], time.monotonic())
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def ready_without(answers: list[tuple[float, bool]], since: float, times: Iterable[float]) -> float:
    """How long after one of these times, and before the next, /readyz still said ready; for ever if it was never asked."""
    known = sorted([since, *times])
    asked = [at for at, is_ready in answers if at > since and is_ready]
    if not any(at > since for at, _ in answers):
        return math.inf
    return max((at - known[bisect.bisect_right(known, at) - 1] for at in asked), default=0)


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0])
    if given.store != "postgres":
        raise SystemExit("--store postgres: SQLite has no connections that vanish")
    url = urlsplit(os.environ["TEST_POSTGRES_URL"])
    proxy = Proxy(url.hostname, url.port)
    os.environ["TEST_POSTGRES_URL"] = url._replace(netloc=f"{url.username}@127.0.0.1:{proxy.port}").geturl()
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    settings = {
        "SETTLE_WEBHOOK__ALLOW_HTTP": "true",
        "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8",
        "SETTLE_API__REQUESTS_PER_SECOND": "0",
    }
    with common.service(given, **settings) as service:
        merchant, key = service.merchant("Half open")
        token = service.operator()
        running = common.Running(service)
        hook = {"webhook_url": f"http://127.0.0.1:{receiver.server_port}/", "webhook_secret": "s" * 32}
        status, body = common.call(running.api, "PUT", "/v1/webhook", key, hook)
        if status != 200:
            raise SystemExit(body)
        # When each settlement was posted, and when it was acknowledged.
        posted: dict[str, float] = {}
        recorded: dict[str, float] = {}
        ended = threading.Event()

        def write() -> None:
            number = 0
            while not ended.is_set():
                number += 1
                row = common.settlement(number) | {"merchant_id": merchant}
                posted[row["settlement_id"]] = time.monotonic()
                try:
                    status, _ = common.call(running.operator, "POST", "/operator/v1/settlements", token, row)
                except OSError:
                    status = 0
                if status == 200:
                    recorded[row["settlement_id"]] = time.monotonic()
                ended.wait(0.05)

        def read() -> None:
            while not ended.is_set():
                try:
                    common.call(running.api, "GET", "/v1/settlements?limit=1", key)
                except OSError:
                    pass
                ended.wait(0.01)

        # When /readyz answered, and whether it said ready.
        answers: list[tuple[float, bool]] = []

        def watch() -> None:
            while not ended.is_set():
                try:
                    status, _ = common.call(running.operator, "GET", "/readyz")
                except OSError:
                    status = 0
                answers.append((time.monotonic(), status == 200))
                ended.wait(0.25)

        works = [write] * WRITERS + [read] * READERS + [watch]
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        for thread in threads:
            thread.start()
        time.sleep(BEFORE_SECONDS)
        proxy.swallow()
        swallowed = time.monotonic()
        time.sleep(AFTER_SECONDS)
        ended.set()
        over = time.monotonic()
        for thread in threads:
            thread.join(1)
        time.sleep(2)
        proxy.swallow()
        stopped = running.stop()
    times = sorted([swallowed, over, *(at for at in recorded.values() if at > swallowed)])
    gap = max(later - earlier for earlier, later in zip(times, times[1:]))
    # Both ends count: who never records again has a gap to the end, and who never sends lets them wait until then.
    waits = [Receiver.arrived.get(settlement, over) - at for settlement, at in recorded.items()]
    missing = sum(settlement not in Receiver.arrived for settlement in recorded)
    # What was posted before may have been sent from memory, with nothing asked of the database any more.
    later = [at for settlement, at in Receiver.arrived.items() if posted[settlement] > swallowed]
    sent_again = min(later, default=float("nan")) - swallowed
    blind = max(ready_without(answers, swallowed, done.values()) for done in (recorded, Receiver.arrived))
    unready = [at - swallowed for at, is_ready in answers if not is_ready]
    said = f"{unready[0]:.1f} s to {unready[-1]:.1f} s" if unready else "never"
    print(
        f"half-open connections: nothing recorded for {gap:.1f} s, sent again after {sent_again:.1f} s, of {len(recorded)} recorded "
        f"the longest waited {max(waits, default=0):.1f} s to be sent and {missing} did not arrive, /readyz not ready: {said}, "
        f"SIGTERM took {stopped:.1f} s"
    )
    verdict = common.Verdict()
    verdict.at_most("nothing recorded", gap, RECORDING_SECONDS_MAX, " s")
    verdict.at_most("sent again", sent_again, SENDING_SECONDS_MAX, " s")
    verdict.at_most("the longest wait to be sent", max(waits, default=float("nan")), SENDING_SECONDS_MAX, " s")
    verdict.at_most("/readyz says ready while nothing is recorded or sent", blind, READY_SECONDS_MAX, " s")
    verdict.holds("/readyz says ready in the end", bool(answers) and answers[-1][1])
    # A service that had to be killed took longer than that.
    verdict.at_most("SIGTERM", stopped, common.STOP_SECONDS_MAX, " s")
    verdict.end()


main()
