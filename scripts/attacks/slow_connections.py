#!/usr/bin/env python3
"""Places without a credential: slow connections to both listeners, renewed whenever they are cut off.

Bound: the p99 of /healthz, /readyz and another merchant is at most twice the one beside the same attack on a neighbour,
or 50 ms.

The neighbour is a second service: the slow connections cost the machine as much there. Each question comes on a new
connection; the slow ones come from the address of the client that measures, and then from many addresses.
"""

import asyncio
import threading
import time

import common
from crowd import SOURCES, connect, crowd

# Who asks whether a service is well does not wait longer.
ANSWER_SECONDS_MAX = 10


async def drip(index: int, port: int, sources: list[str]) -> None:
    """Sends a head byte by byte, and never its end."""
    reader, writer = await connect(port, sources[index % len(sources)])
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: settle\r\nx-slow: ")
        while not reader.at_eof():
            writer.write(b"a")
            await writer.drain()
            with_end = asyncio.wait_for(reader.read(1), 1)
            try:
                if not await with_end:
                    return
            except asyncio.TimeoutError:
                pass
    finally:
        writer.transport.abort()


class Fresh:
    """Asks again and again, each time on a new connection."""

    def __init__(self, port: int, path: str, key: str | None = None) -> None:
        self.probe = common.Probe(port, path, key)
        self.thread = threading.Thread(target=self._ask, args=(port, path, key), daemon=True)
        self.stop = threading.Event()

    def _ask(self, port: int, path: str, key: str | None) -> None:
        while not self.stop.is_set():
            started = time.perf_counter()
            try:
                status, _ = common.call(port, "GET", path, key)
                self.probe.failures += status != 200
            except OSError:
                self.probe.failures += 1
            self.probe.seconds.append(time.perf_counter() - started)
            self.stop.wait(0.02)

    def __enter__(self) -> "Fresh":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.thread.join(common.ANSWER_SECONDS_MAX + 1)


def asked(running, key: str, seconds: float) -> dict[str, common.Probe]:
    """The three, measured at the same time."""
    health = Fresh(running.operator, "/healthz")
    ready = Fresh(running.operator, "/readyz")
    merchant = Fresh(running.api, "/v1/webhook", key)
    with health, ready, merchant:
        time.sleep(seconds)
    return {"healthz": health.probe, "readyz": ready.probe, "merchant": merchant.probe}


def words(probes: dict[str, common.Probe]) -> str:
    """The figures of the three."""
    return "; ".join(f"{name} {probe.words()}" for name, probe in probes.items())


def conclude(what: str, figures: dict[str, dict[str, common.Probe]]) -> None:
    """Prints the figures, and judges whether the attacked service answers as while its neighbour is attacked."""
    print(f"{what}: " + " | ".join(f"{name}: {words(each)}" for name, each in figures.items()))
    verdict = common.Verdict()
    for name in ("one address", "many addresses"):
        for who, probe in figures[f"{name}, attacked"].items():
            verdict.unaffected(f"{who}, {name}", figures[f"{name}, beside it"][who], probe)
    verdict.end()


def main() -> None:
    common.ANSWER_SECONDS_MAX = ANSWER_SECONDS_MAX
    given = common.arguments(__doc__, connections=2_000, operators=200, seconds=10)
    with (
        common.service(given) as service,
        common.service(given) as neighbour,
        service.serve() as running,
        neighbour.serve() as beside,
    ):
        _, key = service.merchant("Quiet")
        figures = {"quiet": asked(running, key, given.seconds)}
        for name, sources in [("one address", SOURCES[:1]), ("many addresses", SOURCES)]:
            for whom, attacked in [("beside it", beside), ("attacked", running)]:
                with (
                    crowd(drip, given.connections, attacked.api, sources),
                    crowd(drip, given.operators, attacked.operator, sources),
                ):
                    figures[f"{name}, {whom}"] = asked(running, key, given.seconds)
    conclude(f"{given.connections} and {given.operators} slow connections, {given.store}", figures)


if __name__ == "__main__":
    main()
