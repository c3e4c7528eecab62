#!/usr/bin/env python3
"""Failed authentication: a flood of wrong keys and wrong tokens, on kept connections.

Bound: another merchant's p99, from the same address, is at most twice the quiet one, or 50 ms, and the log does not
grow by a line each.
"""

import asyncio
import os
import time

import common
from crowd import connect, crowd

# Whoever asks with a right key has a line each; the wrong ones have one an interval, for all of them together.
LOG_LINES_MAX = 20


async def guess(_index: int, port: int, path: str, prefix: str, method: str) -> None:
    """Sends one wrong credential after the other."""
    reader, writer = await connect(port)
    try:
        while True:
            credential = prefix + os.urandom(32).hex()
            writer.write(
                f"{method} {path} HTTP/1.1\r\nhost: settle\r\ncontent-length: 0\r\n"
                f"authorization: Bearer {credential}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
    finally:
        writer.transport.abort()


def lines(running: common.Running) -> int:
    """The lines of the service's log so far."""
    return running.log.read_bytes().count(b"\n")


def main() -> None:
    given = common.arguments(__doc__, connections=64, seconds=10)
    with common.service(given) as service, service.serve() as running:
        _, key = service.merchant("Quiet")
        quiet = common.measure(running.api, "/v1/webhook", key, given.seconds)
        figures = []
        floods = [
            ("wrong keys", running.api, "/v1/webhook", "sk_", "GET"),
            ("wrong tokens", running.operator, "/operator/v1/settlements", "op_", "POST"),
        ]
        for name, port, path, prefix, method in floods:
            before = lines(running)
            with crowd(guess, given.connections, port, path, prefix, method):
                probe = common.measure(running.api, "/v1/webhook", key, given.seconds)
            logged = lines(running) - before - len(probe.seconds)
            figures.append((name, probe, logged))
            time.sleep(1)
    words = "; ".join(f"{name}: {probe.words()}, {logged} lines in the log" for name, probe, logged in figures)
    print(f"wrong credentials, {given.connections} connections, {given.store}: quiet {quiet.words()}; {words}")
    verdict = common.Verdict()
    for name, probe, logged in figures:
        verdict.unaffected(f"another merchant, {name}", quiet, probe)
        verdict.at_most(f"lines in the log, {name}", logged, LOG_LINES_MAX)
    verdict.end()


if __name__ == "__main__":
    main()
