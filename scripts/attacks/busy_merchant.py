#!/usr/bin/env python3
"""Two nodes record as fast as they can for one merchant: do its deliveries keep up?

Bound: deliveries keep at least half the pace of recording, and what is left drains at half the pace or more at which the same
two nodes deliver while nothing is recorded. What arrives again does not count.
"""

import asyncio
import http.client
import json
import math
import multiprocessing
import statistics
import threading
import time

import common

DELIVERED_SHARE_MIN = 0.5
# Of the quiet pace. Full speed is meant: the rest is for the noise of a few seconds on cores that the receiver shares.
DRAINED_SHARE_MIN = 0.5
# What a drain may take beside its pace: the last outcomes of the recording, and a node that hears of what another recorded.
DRAIN_SECONDS = 2
# The quiet pace is the median of spans like this: while the nodes that have just started divide the shards, nothing arrives.
SPAN_SECONDS = 0.25
QUIET_SECONDS_MAX = 120
QUIET_BATCH = 1_000


def receive(port, count) -> None:
    """A receiver that answers 200 to everything and counts each delivery once, in a process of its own."""
    arrived: set[bytes] = set()

    def field(head: bytes, name: bytes) -> bytes:
        return next(line for line in head.split(b"\r\n") if line.lower().startswith(name)).split(b":", 1)[1].strip()

    async def converse(reader, writer) -> None:
        with common.contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(field(head, b"content-length:")))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                arrived.add(field(head, b"service-delivery-id:"))
                count.value = len(arrived)
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=1 << 20)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(serve())


def post(connection: http.client.HTTPConnection, token: str, merchant: str, first: int, number: int) -> int:
    """Posts a batch of new settlements; how many were recorded."""
    body = json.dumps([common.settlement(first + each) | {"merchant_id": merchant} for each in range(number)])
    connection.request("POST", "/operator/v1/settlements", body, common.headers(token, True))
    answer = connection.getresponse()
    answer.read()
    return number if answer.status == 200 else 0


def record(node: int, token: str, merchant: str, batch: int, until: float, recorded: list[int]) -> None:
    """Posts batches of new settlements until the time is over."""
    connection = http.client.HTTPConnection("127.0.0.1", node, timeout=common.ANSWER_SECONDS_MAX)
    first = 0
    while time.monotonic() < until:
        recorded.append(post(connection, token, merchant, first, batch))
        first += batch


def quiet_pace(count, number: int) -> float:
    """What arrives each second until so many have arrived, in the span in the middle of all in which something did."""
    paces, deadline = [], time.monotonic() + QUIET_SECONDS_MAX
    arrived, at = count.value, time.monotonic()
    while arrived < number and at < deadline:
        time.sleep(SPAN_SECONDS)
        now, before = time.monotonic(), arrived
        arrived = count.value
        paces.append((arrived - before) / (now - at))
        at = now
    # The last span ends before it is over.
    whole = [pace for pace in paces[:-1] if pace > 0]
    return statistics.median(whole) if whole else math.nan


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0], seconds=20, clients=8, batch=20, quiet=30_000)
    port, count = multiprocessing.Value("i", 0), multiprocessing.Value("q", 0)
    receiver = multiprocessing.Process(target=receive, args=(port, count), daemon=True)
    receiver.start()
    settings = {"SETTLE_WEBHOOK__ALLOW_HTTP": "true", "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8"}
    with common.service(given, **settings) as service:
        quiet, busy = service.merchant("quiet"), service.merchant("busy")
        token = service.operator()
        # It sends nothing: what it records waits for the nodes that do.
        with service.serve("--role", "api,operator") as recorder:
            for _, key in (quiet, busy):
                webhook = {"webhook_url": f"http://127.0.0.1:{port.value}/hook", "webhook_secret": "whsec"}
                status, answer = common.call(recorder.api, "PUT", "/v1/webhook", key, webhook)
                if status != 200:
                    raise SystemExit(f"PUT /v1/webhook: {status} {answer!r}")
            connection = http.client.HTTPConnection("127.0.0.1", recorder.operator, timeout=common.ANSWER_SECONDS_MAX)
            batches = range(0, given.quiet, QUIET_BATCH)
            waiting = sum(post(connection, token, quiet[0], first, QUIET_BATCH) for first in batches)
            connection.close()
        with service.serve() as first, service.serve() as second:
            pace = quiet_pace(count, waiting)
            before = count.value
            recorded: list[int] = []
            started = time.monotonic()
            threads = [
                threading.Thread(
                    target=record,
                    args=(node.operator, token, busy[0], given.batch, started + given.seconds, recorded),
                )
                for node in (first, second)
                for _ in range(given.clients // 2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            took, delivered, total = time.monotonic() - started, count.value - before, sum(recorded)
            drained = time.monotonic()
            while count.value - before < total and time.monotonic() - drained < 10 * given.seconds:
                time.sleep(0.05)
            drain_seconds = time.monotonic() - drained
            arrived = count.value - before
            print(
                f"busy merchant: quiet {pace:.0f}/s of {waiting}; recorded {total / took:.0f}/s, delivered "
                f"{delivered / took:.0f}/s meanwhile ({100 * delivered / max(total, 1):.0f} %), then "
                f"{(arrived - delivered) / max(drain_seconds, 0.001):.0f}/s; {total} recorded, {arrived} arrived"
            )
    receiver.terminate()
    verdict = common.Verdict()
    verdict.at_least("arrived while nothing was recorded", before, max(waiting, given.quiet))
    verdict.at_least("delivered for each recorded", delivered / max(total, 1), DELIVERED_SHARE_MIN)
    verdict.at_least("arrived in the end", arrived, max(total, 1))
    bound = DRAIN_SECONDS + (total - delivered) / (DRAINED_SHARE_MIN * pace)
    verdict.at_most(f"drained {total - delivered}, {pace:.0f}/s when it is quiet,", drain_seconds, bound, " s")
    verdict.end()


if __name__ == "__main__":
    main()
