#!/usr/bin/env python3
"""What a page of a merchant's settlements costs with 1,000 and with 100,000 of them, in one run.

    cargo build --release
    scripts/measure_lists.py target/release/settle                                sqlite
    scripts/with-postgres scripts/measure_lists.py target/release/settle          postgres

Imports both merchants in random order, serves them, asks for pages one after the other over one connection and in
random turns, and prints medians with their ratio to page 1 of the small merchant. Needs only the standard library.
"""

import http.client
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

SIZES = (1_000, 100_000)
# Rows of the merchant, offset of the page.
PAGES = ((1_000, 0), (100_000, 0), (1_000, 950), (100_000, 9_950), (100_000, 10_000), (1_000, 10_000))
WARM_UP = 200
REQUESTS = 6_000
FIRST_COMPLETION = 1_767_225_600


def settlement(number: int) -> dict:
    completed = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(FIRST_COMPLETION + 7 * number))
    return {
        "settlement_id": str(uuid.uuid4()),
        "completed_at": completed,
        "occurred_at": completed,
        "payin_reference": f"E182361202026{number:012d}",
        "payout_reference": "0x" + "9f" * 32,
        "destination_reference": "wallet-main",
        "incoming_currency": "BRL",
        "incoming_amount": "1000.00",
        "outgoing_currency": "USDC",
        "outgoing_amount": "181.149631",
        "conversion_rate": "5.43",
        "fixed_side": "incoming",
        "fee_percentage": "1.5",
        "fee_percentage_amount": "2.762431",
        "fee_fixed": "0.25",
    }


class Service:
    """The binary with a store of its own."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary = binary
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("SETTLE_")}
        self.environment |= {
            "SETTLE_DATA_DIR": str(folder),
            "SETTLE_API__LISTEN": "127.0.0.1:0",
            "SETTLE_OPERATOR__LISTEN": "127.0.0.1:0",
            "SETTLE_API__REQUESTS_PER_SECOND": "0",
            "SETTLE_LOG__FORMAT": "json",
        }
        if "TEST_POSTGRES_URL" in os.environ:
            self.environment["SETTLE_DATABASE_URL"] = os.environ["TEST_POSTGRES_URL"]

    def run(self, *arguments: str) -> str:
        command = [self.binary, *arguments]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, text=True).stdout.strip()

    def merchant_with(self, settlements: int) -> str:
        """The key of a new merchant with so many settlements."""
        merchant = self.run("merchant", "create", f"{settlements} settlements", "--quiet")
        key = self.run("key", "create", merchant, "--quiet")
        rows = [settlement(number) for number in range(settlements)]
        random.Random(1).shuffle(rows)
        file = self.folder / "import.jsonl"
        file.write_text("\n".join(json.dumps(row) for row in rows))
        started = time.perf_counter()
        self.run("settlement", "import", str(file), "--merchant", merchant)
        print(f"{settlements:>7} settlements imported in {time.perf_counter() - started:.2f} s")
        return key

    def serve(self) -> tuple[subprocess.Popen, int]:
        """The running service and its port, read from its log."""
        process = subprocess.Popen([self.binary, "serve"], env=self.environment, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            entry = json.loads(line)
            if entry.get("message") == "the merchant API listens":
                # The log is left unread from here on: it is small while nothing is logged.
                return process, int(entry["address"].rsplit(":", 1)[1])
        raise SystemExit("the service did not start")


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
        service = Service(sys.argv[1], Path(folder))
        keys = {size: service.merchant_with(size) for size in SIZES}
        service.environment["SETTLE_LOG__LEVEL"] = "info,settle_api=warn"
        process, port = service.serve()
        try:
            taken = measure(port, keys)
        finally:
            process.terminate()
            process.wait()
    medians = {page: sorted(times)[len(times) // 2] for page, times in taken.items()}
    for (rows, offset), median in medians.items():
        ratio = median / medians[PAGES[0]]
        print(f"{rows:>7} rows, offset {offset:>6}: median {median * 1e6:6.0f} µs, {ratio:.2f} × page 1 of 1,000")


if __name__ == "__main__":
    main()
