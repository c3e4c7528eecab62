#!/usr/bin/env python3
"""Failed authentication: a flood of wrong keys and wrong tokens, on kept connections.

Bound: another merchant's p99, from the same address, stays near the quiet one, and the log does not grow by a line each.
"""

import asyncio
import os
import time

import common
from crowd import connect, crowd


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


def main() -> None:
    given = common.arguments(__doc__, connections=64, seconds=10)
    with common.service(given) as service, service.serve() as running:
        _, key = service.merchant("Quiet")
        quiet = common.measure(running.api, "/v1/webhook", key, given.seconds)
        figures = [f"quiet {quiet.words()}"]
        floods = [
            ("wrong keys", running.api, "/v1/webhook", "sk_", "GET"),
            ("wrong tokens", running.operator, "/operator/v1/settlements", "op_", "POST"),
        ]
        for name, port, path, prefix, method in floods:
            before = running.log.stat().st_size
            with crowd(guess, given.connections, port, path, prefix, method):
                probe = common.measure(running.api, "/v1/webhook", key, given.seconds)
            logged = (running.log.stat().st_size - before) / 1024
            figures.append(f"{name}: {probe.words()}, log {logged:.0f} KiB")
            time.sleep(1)
    print(f"wrong credentials, {given.connections} connections, {given.store}: " + "; ".join(figures))


if __name__ == "__main__":
    main()
