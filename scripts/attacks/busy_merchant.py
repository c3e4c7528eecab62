#!/usr/bin/env python3
"""Two nodes record as fast as they can for one merchant: do its deliveries keep up?

Bound: deliveries keep at least half the pace of recording, and what is left drains in the time that recording took.
"""

import asyncio
import http.client
import json
import multiprocessing
import threading
import time

import common

DELIVERED_SHARE_MIN = 0.5


def receive(port, count) -> None:
    """A receiver that answers 200 to everything, in a process of its own."""

    async def converse(reader, writer) -> None:
        with common.contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                count.value += 1
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=1 << 20)
        port.value = server.sockets[0].getsockname()[1]
        await server.serve_forever()

    asyncio.run(serve())


def record(node: int, token: str, merchant: str, batch: int, until: float, recorded: list[int]) -> None:
    """Posts batches of new settlements until the time is over."""
    connection = http.client.HTTPConnection("127.0.0.1", node, timeout=common.ANSWER_SECONDS_MAX)
    number = 0
    while time.monotonic() < until:
        rows = [common.settlement(number + each) | {"merchant_id": merchant} for each in range(batch)]
        number += batch
        body = json.dumps(rows)
        connection.request("POST", "/operator/v1/settlements", body, common.headers(token, True))
        answer = connection.getresponse()
        answer.read()
        if answer.status == 200:
            recorded.append(batch)


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0], seconds=20, clients=8, batch=20)
    port, count = multiprocessing.Value("i", 0), multiprocessing.Value("q", 0)
    receiver = multiprocessing.Process(target=receive, args=(port, count), daemon=True)
    receiver.start()
    settings = {"SETTLE_WEBHOOK__ALLOW_HTTP": "true", "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8"}
    with common.service(given, **settings) as service:
        with service.serve() as first, service.serve() as second:
            merchant, key = service.merchant("busy")
            token = service.operator()
            webhook = {"webhook_url": f"http://127.0.0.1:{port.value}/hook", "webhook_secret": "whsec"}
            status, answer = common.call(first.api, "PUT", "/v1/webhook", key, webhook)
            if status != 200:
                raise SystemExit(f"PUT /v1/webhook: {status} {answer!r}")
            recorded: list[int] = []
            started = time.monotonic()
            threads = [
                threading.Thread(
                    target=record,
                    args=(node.operator, token, merchant, given.batch, started + given.seconds, recorded),
                )
                for node in (first, second)
                for _ in range(given.clients // 2)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            took, delivered, total = time.monotonic() - started, count.value, sum(recorded)
            drained = time.monotonic()
            while count.value < total and time.monotonic() - drained < 10 * given.seconds:
                time.sleep(0.05)
            drain_seconds = time.monotonic() - drained
            drain = (count.value - delivered) / max(drain_seconds, 0.001)
            print(
                f"busy merchant: recorded {total / took:.0f}/s, delivered {delivered / took:.0f}/s meanwhile "
                f"({100 * delivered / max(total, 1):.0f} %), then {drain:.0f}/s; "
                f"{total} recorded, {count.value} arrived"
            )
    receiver.terminate()
    verdict = common.Verdict()
    verdict.at_least("delivered for each recorded", delivered / max(total, 1), DELIVERED_SHARE_MIN)
    verdict.at_least("arrived in the end", count.value, max(total, 1))
    verdict.at_most("drained", drain_seconds, took, " s")
    verdict.end()


if __name__ == "__main__":
    main()
