#!/usr/bin/env python3
"""Memory without a key: thousands of connections that each send a head of 400 kB, or of nearly 32 KiB, and wait.

Bound: at most 200 MiB resident, also when one source may have as many connections as it likes.
"""

import asyncio
import time

import common
from crowd import connect, crowd, has_setting

LONG = 400_000
NEARLY = 31 * 1024
CHUNK = 16_000
MEMORY_MIB_MAX = 200
# Open files of the service once the crowd is there. Fewer, and there was no attack.
FILES_MIN = 300
CROWD_SECONDS_MAX = 30


async def send_head(_index: int, port: int, length: int) -> None:
    """Sends so much of a head, without its end, and waits for the connection to end."""
    reader, writer = await connect(port)
    try:
        writer.write(b"GET /v1/settlements HTTP/1.1\r\nhost: settle\r\n")
        line = b"x-filler: " + b"a" * (CHUNK - 12) + b"\r\n"
        for start in range(0, length, CHUNK):
            writer.write(line[-min(CHUNK, length - start):] if start else line[: min(CHUNK, length)])
            await writer.drain()
        await reader.read()
    finally:
        writer.transport.abort()


def measure(given, length: int, settings: dict[str, str]) -> tuple[float, float]:
    """The resident memory before the attack, and its maximum, in MiB."""
    with common.service(given, **settings) as service, service.serve() as running:
        before = running.rss()
        with crowd(send_head, given.connections, running.api, length, settle=1):
            deadline = time.monotonic() + CROWD_SECONDS_MAX
            while running.files() < FILES_MIN:
                if time.monotonic() > deadline:
                    raise SystemExit(f"after {CROWD_SECONDS_MAX} s there are hardly any connections")
                time.sleep(0.05)
            time.sleep(given.seconds)
            return before, running.rss_max()


def main() -> None:
    given = common.arguments(__doc__, connections=4_000, seconds=12)
    figures, verdict = [], common.Verdict()
    with common.service(given) as service:
        settings = {}
        if has_setting(service, "api.connections_per_source"):
            settings["SETTLE_API__CONNECTIONS_PER_SOURCE"] = "100000"
    for name, length, extra in [
        ("400 kB", LONG, {}),
        ("400 kB without a limit of a source", LONG, settings),
        ("31 KiB without a limit of a source", NEARLY, settings),
    ]:
        if extra or not settings or length == LONG:
            before, most = measure(given, length, extra)
            figures.append((name, before, most))
    words = "; ".join(f"{name}: {before:.0f} -> {most:.0f} MiB" for name, before, most in figures)
    print(f"long heads, {given.connections} connections, {given.store}: {words}")
    for name, _, most in figures:
        verdict.at_most(f"{name}, resident", most, MEMORY_MIB_MAX, " MiB")
    verdict.end()


if __name__ == "__main__":
    main()
