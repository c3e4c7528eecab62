#!/usr/bin/env python3
"""Test deliveries: one merchant asks for them as fast as it can, and its endpoint takes its time.

Bound: another merchant's p99 is at most twice the quiet one, or 50 ms, and the endpoint never has more than two at
once.
"""

import common
from crowd import Endpoint, connect, crowd

ENDPOINT_SECONDS = 3
AT_ONCE_MAX = 2


async def ask(_index: int, port: int, key: str) -> None:
    """Asks for one test delivery after the other."""
    reader, writer = await connect(port)
    try:
        while True:
            writer.write(
                f"POST /v1/webhook/test HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {key}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
    finally:
        writer.transport.abort()


def main() -> None:
    given = common.arguments(__doc__, connections=200, seconds=10)
    settings = {"SETTLE_WEBHOOK__ALLOW_HTTP": "true", "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8"}
    with (
        Endpoint(ENDPOINT_SECONDS) as endpoint,
        common.service(given, **settings) as service,
        service.serve() as running,
    ):
        (_, quiet_key), (_, key) = service.merchant("Quiet"), service.merchant("Tester")
        body = {"webhook_url": endpoint.url, "webhook_secret": "hush"}
        status, answer = common.call(running.api, "PUT", "/v1/webhook", key, body)
        assert status == 200, answer
        quiet = common.measure(running.api, "/v1/webhook", quiet_key, given.seconds)
        before = running.rss()
        with crowd(ask, given.connections, running.api, key):
            attacked = common.measure(running.api, "/v1/webhook", quiet_key, given.seconds)
        print(
            f"test deliveries, {given.connections} callers of one merchant, {given.store}: quiet {quiet.words()}; "
            f"attacked {attacked.words()}; at the endpoint at once {endpoint.at_once.value}; "
            f"memory {before:.0f} -> {running.rss_max():.0f} MiB"
        )
    verdict = common.Verdict()
    verdict.unaffected("another merchant", quiet, attacked)
    verdict.at_least("requests at the endpoint", endpoint.requests.value, 1)
    verdict.at_most("at the endpoint at once", endpoint.at_once.value, AT_ONCE_MAX)
    verdict.end()


if __name__ == "__main__":
    main()
