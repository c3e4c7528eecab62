#!/usr/bin/env python3
"""Places held by bodies that never come: whole heads to both listeners, renewed whenever they are cut off.

Bound: the p99 of /healthz, /readyz and another merchant is at most twice the one beside the same attack on a neighbour,
or 50 ms.

To operators they are hints of a provider, which need no credential before their body; to merchants changes of an endpoint
with one merchant's key. The neighbour is a second service: the bodies cost the machine as much there.
"""

import asyncio

import common
from crowd import SOURCES, connect, crowd
from slow_connections import ANSWER_SECONDS_MAX, asked, conclude


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
    with (
        common.service(given, **provider) as service,
        common.service(given, **provider) as neighbour,
        service.serve() as running,
        neighbour.serve() as beside,
    ):
        _, quiet = service.merchant("Quiet")
        slow = {whom: each.merchant("Slow")[1] for whom, each in (("beside it", neighbour), ("attacked", service))}
        hint = head("POST /operator/v1/providers/desk/callback")
        figures = {"quiet": asked(running, quiet, given.seconds)}
        for name, sources in [("one address", SOURCES[:1]), ("many addresses", SOURCES)]:
            for whom, attacked in [("beside it", beside), ("attacked", running)]:
                with (
                    crowd(unfinished, given.connections, attacked.api, sources, head("PUT /v1/webhook", slow[whom])),
                    crowd(unfinished, given.operators, attacked.operator, sources, hint),
                ):
                    figures[f"{name}, {whom}"] = asked(running, quiet, given.seconds)
    conclude(f"{given.connections} and {given.operators} unfinished bodies, {given.store}", figures)


if __name__ == "__main__":
    main()
