#!/usr/bin/env python3
"""A command imports 300,000 settlements with --notify while others' settlements arrive and others read theirs.

Bound: others' arrivals stop for at most a second, and others' reads have at most twice the p99 of a quiet service, or
50 ms.

The import is of two merchants with an endpoint. The dispatcher does not run: what is measured is the import.

    scripts/attacks/imports.py --binary target/release/settle --store sqlite --rows 300000
"""

import random
import subprocess
import time

import common

QUIET_SECONDS = 10
GAP_SECONDS_MAX = 1.0
ENDPOINT = {"webhook_url": "http://127.0.0.1:49999/", "webhook_secret": "whsec-imports-secret"}


def write_file(path: str, merchants: list[str], rows: int) -> None:
    numbers = list(range(rows))
    random.Random(1).shuffle(numbers)
    with open(path, "w") as file:
        for number in numbers:
            row = common.settlement(number) | {"merchant_id": merchants[number % len(merchants)]}
            file.write(common.json.dumps(row) + "\n")


def watch(running: common.Running, beside: tuple[str, str], token: str, work) -> tuple[common.Probe, common.Arrivals]:
    """Reads and arrivals of another merchant while `work` lasts."""
    merchant, key = beside
    reads = common.Probe(running.api, "/v1/settlements?limit=20", key)
    arrivals = common.Arrivals(running.operator, token, merchant)
    with reads, arrivals:
        work()
    return reads, arrivals


def total(port: int, key: str, path: str) -> int:
    return common.json.loads(common.call(port, "GET", path, key)[1])["total"]


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0], rows=300_000)
    settings = {
        "SETTLE_WEBHOOK__ALLOW_HTTP": "true",
        "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8",
        "SETTLE_API__REQUESTS_PER_SECOND": "0",
    }
    with common.service(given, **settings) as service:
        service.run("migrate")
        importing = [service.merchant(f"imports {number}") for number in range(2)]
        beside = service.merchant("beside")
        token = service.operator()
        service.import_settlements(beside[0], 1_000)
        file = str(service.folder / "import.jsonl")
        write_file(file, [merchant for merchant, _ in importing], given.rows)
        with service.serve("--role", "api,operator") as running:
            for _, key in importing:
                status, body = common.call(running.api, "PUT", "/v1/webhook", key, ENDPOINT)
                if status != 200:
                    raise SystemExit(f"the endpoint is refused: {body!r}")
            quiet = watch(running, beside, token, lambda: time.sleep(QUIET_SECONDS))
            done = {}

            def run() -> None:
                started = time.monotonic()
                command = [service.binary, "settlement", "import", file, "--notify", "--json"]
                ran = subprocess.run(command, env=service.environment, check=False, capture_output=True, text=True)
                done["seconds"], done["said"] = time.monotonic() - started, ran.stdout.strip() or ran.stderr.strip()

            loud = watch(running, beside, token, run)
            settlements = sum(total(running.api, key, "/v1/settlements?limit=1") for _, key in importing)
            deliveries = sum(total(running.api, key, "/v1/webhook/deliveries?limit=1") for _, key in importing)
    times = loud[0].percentile(99) / quiet[0].percentile(99)
    gap = loud[1].longest_gap()
    print(f"imports, {given.store}, {given.rows} lines in {done['seconds']:.1f} s: {done['said']}")
    for what, before, beside_it in (("reads", quiet[0], loud[0]), ("arrivals", quiet[1], loud[1])):
        print(f"  another's {what}, quiet:  {before.words()}\n  another's {what}, beside: {beside_it.words()}")
    print(f"  reads: p99 {times:.1f} x quiet; arrivals: the longest gap {gap:.2f} s (quiet {quiet[1].longest_gap():.2f} s)")
    verdict = common.Verdict()
    verdict.at_least("settlements recorded", settlements, given.rows)
    verdict.at_least("deliveries enqueued", deliveries, given.rows)
    verdict.at_most("others' arrivals stop", gap, GAP_SECONDS_MAX, " s")
    verdict.unaffected("others' reads", quiet[0], loud[0])
    verdict.holds(f"others' arrivals that failed: {loud[1].failures}", loud[1].failures == 0)
    verdict.end()


if __name__ == "__main__":
    main()
