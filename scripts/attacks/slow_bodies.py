#!/usr/bin/env python3
"""Places held by bodies that never come: whole heads to both listeners, renewed whenever they are cut off.

To operators they are hints of a provider, which need no credential before their body; to merchants changes of an endpoint
with one merchant's key. Bound: /healthz, /readyz and another merchant's requests are answered within a second.
"""

import asyncio

import common
from crowd import SOURCES, connect, crowd
from slow_connections import ANSWER_SECONDS_MAX, asked


async def unfinished(index: int, port: int, sources: list[str], head: bytes) -> None:
    """Sends a whole head and the first byte of its body, and waits until it is cut off or refused."""
    reader, writer = await connect(port, sources[index % len(sources)])
    try:
        writer.write(head + b"{")
        await writer.drain()
        await asyncio.wait_for(reader.read(1), 60)
    finally:
        writer.transport.abort()


def head(target: str, key: str | None = None) -> bytes:
    """A head whose body has 60,000 bytes."""
    lines = [f"{target} HTTP/1.1", "host: settle", "content-type: application/json", "content-length: 60000"]
    if key:
        lines.append(f"authorization: Bearer {key}")
    return "\r\n".join([*lines, "", ""]).encode()


def main() -> None:
    common.ANSWER_SECONDS_MAX = ANSWER_SECONDS_MAX
    given = common.arguments(__doc__, connections=5_000, operators=200, seconds=10)
    provider = {"SETTLE_PROVIDERS__DESK__URL": "http://127.0.0.1:9", "SETTLE_PROVIDERS__DESK__SECRET": "hush"}
    with common.service(given, **provider) as service, service.serve() as running:
        _, quiet = service.merchant("Quiet")
        _, slow = service.merchant("Slow")
        hint = head("POST /operator/v1/providers/desk/callback")
        change = head("PUT /v1/webhook", slow)
        lines = [f"quiet: {asked(running, quiet, given.seconds)}"]
        for name, sources in [("one address", SOURCES[:1]), ("many addresses", SOURCES)]:
            with (
                crowd(unfinished, given.connections, running.api, sources, change),
                crowd(unfinished, given.operators, running.operator, sources, hint),
            ):
                lines.append(f"{name}: {asked(running, quiet, given.seconds)}")
    numbers = f"{given.connections} and {given.operators} unfinished bodies"
    print(f"{numbers}, {given.store}: " + " | ".join(lines))


if __name__ == "__main__":
    main()
