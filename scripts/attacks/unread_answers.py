#!/usr/bin/env python3
"""Unread answers: one key asks for the longest pages on many connections, many times, and reads nothing.

Bound: at most 100 MiB resident, and another merchant's p99 is at most twice the quiet one, or 50 ms.
"""

import asyncio
import time

import common
from crowd import connect, crowd

PAUSE_SECONDS = 1
MEMORY_MIB_MAX = 100


async def ask(_index: int, port: int, key: str) -> None:
    """Asks for many pages and reads none."""
    # The kernel of the client takes little, so that the answers stay where they are made.
    _, writer = await connect(port, receive_bytes=4_096)
    writer.transport.pause_reading()
    try:
        page = f"GET /v1/settlements?limit=200 HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {key}\r\n\r\n"
        # Again and again: a request that met a limit holds nothing.
        while True:
            writer.write(page.encode())
            await writer.drain()
            await asyncio.sleep(PAUSE_SECONDS)
    finally:
        writer.transport.abort()


def main() -> None:
    given = common.arguments(__doc__, connections=2_000, seconds=20)
    with common.service(given) as service:
        (merchant, key), (_, quiet_key) = service.merchant("Hoarder"), service.merchant("Quiet")
        service.import_settlements(merchant, 200)
        with service.serve() as running:
            quiet = common.measure(running.api, "/v1/webhook", quiet_key, 5)
            before = running.rss()
            with crowd(ask, given.connections, running.api, key):
                attacked = common.measure(running.api, "/v1/webhook", quiet_key, given.seconds)
                most = running.rss_max()
    print(
        f"unread answers, {given.connections} connections of one key, {given.store}: memory {before:.0f} -> {most:.0f} MiB; "
        f"another merchant: quiet {quiet.words()}; attacked {attacked.words()}"
    )
    verdict = common.Verdict()
    verdict.at_most("resident", most, MEMORY_MIB_MAX, " MiB")
    verdict.unaffected("another merchant", quiet, attacked)
    verdict.end()


if __name__ == "__main__":
    main()
