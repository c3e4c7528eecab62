#!/usr/bin/env python3
"""What a page of a merchant's settlements costs with 1,000 and with 100,000 of them, in one run.

    cargo build --release
    scripts/measure_lists.py target/release/settle                                sqlite
    scripts/with-postgres scripts/measure_lists.py target/release/settle          postgres

Imports both merchants in random order, serves them, asks for pages one after the other over one connection and in
random turns, and prints medians with their ratio to page 1 of the small merchant. Needs only the standard library.
"""

import http.client
import random
import sys
import tempfile
import time
from pathlib import Path

from attacks.common import Service

SIZES = (1_000, 100_000)
# Rows of the merchant, offset of the page.
PAGES = ((1_000, 0), (100_000, 0), (1_000, 950), (100_000, 9_950), (100_000, 10_000), (1_000, 10_000))
WARM_UP = 200
REQUESTS = 6_000


class Lists(Service):
    """The service with merchants of many settlements."""

    def merchant_with(self, settlements: int) -> str:
        """The key of a new merchant with so many settlements."""
        merchant, key = self.merchant(f"{settlements} settlements")
        started = time.perf_counter()
        self.import_settlements(merchant, settlements)
        print(f"{settlements:>7} settlements imported in {time.perf_counter() - started:.2f} s")
        return key


def measure(port: int, keys: dict[int, str]) -> dict[tuple[int, int], list[float]]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken = {page: [] for page in PAGES}
    turns = random.Random(2)
    for number in range(WARM_UP + REQUESTS):
        rows, offset = turns.choice(PAGES)
        started = time.perf_counter()
        connection.request("GET", f"/v1/settlements?offset={offset}", headers={"Authorization": f"Bearer {keys[rows]}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {body.decode()}")
        if number >= WARM_UP:
            taken[rows, offset].append(time.perf_counter() - started)
    return taken


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"SETTLE_API__REQUESTS_PER_SECOND": "0", "SETTLE_LOG__LEVEL": "info,settle_api=warn"}
        service = Lists(sys.argv[1], Path(folder), settings)
        keys = {size: service.merchant_with(size) for size in SIZES}
        with service.serve() as running:
            taken = measure(running.api, keys)
    medians = {page: sorted(times)[len(times) // 2] for page, times in taken.items()}
    for (rows, offset), median in medians.items():
        ratio = median / medians[PAGES[0]]
        print(f"{rows:>7} rows, offset {offset:>6}: median {median * 1e6:6.0f} µs, {ratio:.2f} × page 1 of 1,000")


if __name__ == "__main__":
    main()
