#!/usr/bin/env python3
"""Too few files: the service may open 512, merchants hold half of them, and their slow endpoints ask for more.

Bound: every notification arrives, and none of them spent more than one attempt, although attempts could not be made for
want of files.

Every endpoint answers 204, late, so that an attempt that does not succeed is a fault of ours.
"""

import asyncio
import http.client
import json
import time

import common
from crowd import SOURCES, Endpoint, connect, crowd

FILES_MAX = 512
ENDPOINT_SECONDS = 8
SECONDS_MAX = 240


async def hold(index: int, port: int, number: int) -> None:
    """Holds connections, and asks for something cheap on each of them now and then."""
    held = [await connect(port, SOURCES[(index + each) % len(SOURCES)]) for each in range(number)]
    try:
        while True:
            for reader, writer in held:
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: settle\r\n\r\n")
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
            await asyncio.sleep(1)
    finally:
        for _, writer in held:
            writer.transport.abort()


def faults(port: int) -> int:
    """How often the service could not attempt a delivery for want of files, as its metrics say."""
    _, metrics = common.call(port, "GET", "/metrics")
    lines = metrics.decode().splitlines()
    found = [line for line in lines if line.startswith('settle_delivery_faults_total{cause="resources"')]
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in found)


def record(port: int, token: str, merchants: list[str], number: int, pace: float) -> int:
    """Posts settlements at this pace, on one connection that is open already; how many were recorded."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=common.ANSWER_SECONDS_MAX)
    recorded, started = 0, time.monotonic()
    for each in range(number):
        time.sleep(max(0.0, started + each / pace - time.monotonic()))
        body = {"merchant_id": merchants[each % len(merchants)], **common.settlement(each)}
        connection.request("POST", "/operator/v1/settlements", json.dumps(body), common.headers(token, True))
        answer = connection.getresponse()
        answer.read()
        recorded += answer.status in (200, 201)
    connection.close()
    return recorded


def deliveries(port: int, key: str) -> list[dict]:
    """A merchant's deliveries; all of them, as long as they fit a page."""
    status, answer = common.call(port, "GET", "/v1/webhook/deliveries?limit=100", key)
    assert status == 200, answer
    return json.loads(answer)["deliveries"]


def main() -> None:
    given = common.arguments(__doc__, merchants=35, notifications=700, pace=40, held=250)
    settings = {"SETTLE_WEBHOOK__ALLOW_HTTP": "true", "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8"}
    with Endpoint(ENDPOINT_SECONDS) as endpoint, common.service(given, **settings) as service:
        token = service.operator()
        shops = [service.merchant(f"Shop {each}") for each in range(given.merchants)]
        service.files_max = FILES_MAX
        with service.serve() as running:
            body = {"webhook_url": endpoint.url, "webhook_secret": "hush"}
            for _, key in shops:
                status, answer = common.call(running.api, "PUT", "/v1/webhook", key, body)
                assert status == 200, answer
            with crowd(hold, 1, running.api, given.held):
                recorded = record(running.operator, token, [merchant for merchant, _ in shops], given.notifications, given.pace)
                files = running.files()
            deadline, waiting = time.monotonic() + SECONDS_MAX, True
            while waiting and time.monotonic() < deadline:
                time.sleep(1)
                known = [each for _, key in shops for each in deliveries(running.api, key)]
                waiting = any(each["status"] == "pending" for each in known)
            missed = faults(running.operator)
    delivered = sum(each["status"] == "delivered" for each in known)
    spent = [each for each in known if each["attempts"] > 1]
    print(
        f"few files, {FILES_MAX}, {given.held} held, {given.notifications} at {given.pace}/s, {given.store}: {recorded} "
        f"recorded, {delivered} delivered, {len(spent)} with more than one attempt, {endpoint.requests.value} requests at the "
        f"endpoint; {missed} attempts could not be made for want of files; {files} open at the end of the recording"
    )
    verdict = common.Verdict()
    verdict.at_least("recorded", recorded, given.notifications)
    verdict.at_least("delivered", delivered, recorded)
    verdict.at_most("with more than one attempt", len(spent), 0)
    # Otherwise there were files enough, and nothing is proven.
    verdict.at_least("attempts that could not be made for want of files", missed, 1)
    verdict.end()


if __name__ == "__main__":
    main()
