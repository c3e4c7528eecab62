"""Fuzzes the real binary through its OpenAPI document, on both stores, and proves how much was tried.

Two fuzzers share the operations, one a core. Each draws its requests once and sends them to both stores: every check
holds for both answers, and both have the same status. Sequences of requests are tried on one store by each.

It fails when a check fails, when an operation with input to vary got fewer than the wanted number of cases on a store,
and when an operation never once succeeded there (then only its errors were tested).

What passed is not run again until the binary or a file of this folder changes: the stamp lies beside the logs, in
`target/schemathesis`. `--fresh` ignores it.

Needs only the standard library, and TEST_POSTGRES_URL (see `scripts/with-postgres`).
"""

import argparse
import contextlib
import functools
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# No compiled files in the source tree.
sys.dont_write_bytecode = True

from dns_stub import DnsStub
from report import Operation, operations_of, problems_of, table_of, tally_of
from seed_data import settlement_lines
from service import (
    KILLED_SECONDS_MAX,
    PROGRAM_SECONDS_MAX,
    RUNNING,
    STOPPED,
    Failure,
    Service,
    complaints_of,
    start,
    tail_of,
)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORES = ("sqlite", "postgres")
# Operations of the fuzzer that knows the first store, all that depend on the endpoint among them; the other has all
# others, and takes about as long.
SHARE = (
    "GET /v1/settlements",
    "GET /v1/webhook",
    "PUT /v1/webhook",
    "POST /v1/webhook/test",
)
DATABASE_NAME = "settle_schemathesis"

CASES_PER_OPERATION_MIN = 2_000
# A run is the same tomorrow: a failure is somebody's change, never a lucky draw.
SEED = 20_240_229
# Several times what a fuzzer takes on two cores.
RUN_SECONDS_MAX = 1_800

DEAD_DELIVERIES = 150
PENDING_DELIVERIES = 50
SETTLEMENTS = DEAD_DELIVERIES + PENDING_DELIVERIES
WEBHOOK = {"webhook_url": "https://hooks.example.com/settle", "webhook_secret": "whsec_schemathesis"}


def seed(service: Service, first_number: int) -> tuple[str, list[str]]:
    """Gives the service a merchant with settlements and deliveries; returns its key and dead delivery ids."""
    merchant = json.loads(service.command("merchant", "create", "Schemathesis", "--json"))["merchant_id"]
    key = json.loads(service.command("key", "create", merchant, "--json"))["api_key"]

    def import_settlements(first: int, count: int) -> None:
        service.call("PUT", "/v1/webhook", key, WEBHOOK)
        lines = service.directory / f"settlements-{first}.jsonl"
        lines.write_text("".join(f"{line}\n" for line in settlement_lines(merchant, first, count)))
        service.command("settlement", "import", str(lines), "--notify")

    import_settlements(first_number, DEAD_DELIVERIES)
    # Clearing the endpoint is what makes its pending deliveries dead, and only dead ones can be redelivered.
    service.call("PUT", "/v1/webhook", key, {"webhook_url": None})
    import_settlements(first_number + DEAD_DELIVERIES, PENDING_DELIVERIES)

    dead = service.call("GET", "/v1/webhook/deliveries?status=dead&limit=200", key)["deliveries"]
    if not dead:
        raise Failure("no delivery is dead after its endpoint was cleared: nothing to redeliver")
    return key, [delivery["delivery_id"] for delivery in dead]


@dataclass(frozen=True)
class Fuzzer:
    """A process of schemathesis: it knows one store, and its hooks send each request to the other too."""

    store: str
    services: dict[str, Service]
    folder: Path
    operations: list[str]

    @property
    def tally(self) -> Path:
        """Where it writes what it has counted."""
        return self.folder / "tally.json"

    def run(self, options: argparse.Namespace) -> None:
        """Gives it a merchant on each store, and waits for its end."""
        keys, dead = {}, []
        for store, service in self.services.items():
            keys[store], delivery_ids = seed(service, STORES.index(self.store) * SETTLEMENTS)
            dead += delivery_ids
        (self.folder / "delivery_ids.dict").write_text("".join(f'"{delivery_id}"\n' for delivery_id in dead))
        shutil.copy(HERE / "hooks.py", self.folder)
        settings = (HERE / "schemathesis.toml").read_text() + self.settings(keys)
        (self.folder / "schemathesis.toml").write_text(settings)

        log = self.folder / "schemathesis.log"
        with log.open("wb") as output:
            exit_code = self.wait_for(self.arguments(options, keys[self.store]), output)
        if exit_code != 0:
            text = f"{self.folder.name}: schemathesis ended with {exit_code}:\n{tail_of(log)}"
            for store, service in self.services.items():
                text += f"\nwarnings and errors of the service on {store}:\n{complaints_of(service.log)}"
            raise Failure(text)

    def settings(self, keys: dict[str, str]) -> str:
        """What the settings say for this one alone: where the other store is, and what others try."""
        other = next(store for store in STORES if store != self.store)
        check = {
            "store": self.store,
            "other": other,
            "url": self.services[other].api,
            "key": keys[other],
            "tally": str(self.tally),
        }
        lines = ["", "[checks.BothStores]", *(f"{name} = {json.dumps(value)}" for name, value in check.items())]
        lines += ["", "[[operations]]", f"exclude-name = {json.dumps(self.operations)}"]
        lines += [f"phases.{phase}.enabled = false" for phase in ("examples", "coverage", "fuzzing")]
        return "\n".join([*lines, ""])

    def arguments(self, options: argparse.Namespace, key: str) -> list[str]:
        """The command line."""
        service = self.services[self.store]
        arguments = [
            options.schemathesis,
            "--config-file",
            self.folder / "schemathesis.toml",
            "--no-color",
            "run",
            f"{service.api}/openapi.json",
            "--url",
            service.api,
            "--header",
            f"Authorization: Bearer {key}",
            "--checks",
            "all",
            "--phases",
            "examples,coverage,fuzzing,stateful",
            "--max-examples",
            options.cases,
            "--seed",
            options.seed,
            "--workers",
            "1",
            "--continue-on-failure",
        ]
        return [str(argument) for argument in arguments]

    def wait_for(self, arguments: list[str], output: BinaryIO) -> int:
        """Its exit code."""
        process = start(arguments, cwd=self.folder, stdout=output)
        try:
            return process.wait(RUN_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(KILLED_SECONDS_MAX)
            raise Failure(f"schemathesis did not end within {RUN_SECONDS_MAX} s") from None
        finally:
            RUNNING.discard(process)


def psql(statement: str) -> None:
    """One statement on the throw-away PostgreSQL."""
    url = os.environ.get("TEST_POSTGRES_URL")
    if not url:
        raise Failure("TEST_POSTGRES_URL is not set: run this through scripts/with-postgres")
    tool = shutil.which("psql") or max(map(str, Path("/usr/lib/postgresql").glob("*/bin/psql")), default=None)
    if tool is None:
        raise Failure("psql is not installed (Debian: postgresql-client)")
    done = subprocess.run(
        [tool, "--no-psqlrc", "--quiet", "--dbname", url, "--command", statement],
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
    )
    if done.returncode != 0:
        raise Failure(f"psql: {done.stderr}")


def database_url(store: str, data: Path) -> str:
    """A new, empty database of the store."""
    if store == "sqlite":
        return f"sqlite://{data / 'settle.db'}"
    psql(f"DROP DATABASE IF EXISTS {DATABASE_NAME} WITH (FORCE)")
    psql(f"CREATE DATABASE {DATABASE_NAME}")
    return urllib.parse.urlsplit(os.environ["TEST_POSTGRES_URL"])._replace(path=f"/{DATABASE_NAME}").geturl()


def run(options: argparse.Namespace) -> str:
    """The whole run; returns the table of what was tried."""
    fuzzers, operations = fuzz(options)
    tables, problems = [], []
    for store in STORES:
        tally = tally_of([fuzzer.tally for fuzzer in fuzzers], store, operations)
        tables.append(f"{store}:\n{table_of(tally, operations)}")
        problems += [f"{store}: {problem}" for problem in problems_of(tally, operations, options.cases)]
    if problems:
        raise Failure("\n".join([*tables, *problems]))
    return "\n".join(tables)


def fuzz(options: argparse.Namespace) -> tuple[list[Fuzzer], list[Operation]]:
    """Runs both fuzzers against both stores; returns them, and what the document has."""
    with contextlib.ExitStack() as stack:
        dns = stack.enter_context(DnsStub())
        services = {}
        for store in STORES:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"settle-schemathesis-{store}-")))
            log = empty(options.output / store) / "service.log"
            services[store] = stack.enter_context(
                Service(options.binary, database_url(store, data), data, log, dns.address)
            )
        operations = operations_of(services[STORES[0]].call("GET", "/openapi.json"))
        shares = shares_of([operation.name for operation in operations])
        fuzzers = [
            Fuzzer(store, services, empty(options.output / f"fuzzer-{store}"), share)
            for store, share in zip(STORES, shares, strict=True)
        ]
        run_side_by_side([functools.partial(fuzzer.run, options) for fuzzer in fuzzers])
        for service in services.values():
            service.check_alive()
    return fuzzers, operations


def empty(folder: Path) -> Path:
    """A new folder, instead of what an earlier run has left."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def shares_of(operations: list[str]) -> list[list[str]]:
    """Every operation in one of the two shares."""
    unknown = set(SHARE) - set(operations)
    if unknown:
        raise Failure(f"SHARE names what is no operation: {', '.join(sorted(unknown))}")
    return [list(SHARE), [operation for operation in operations if operation not in SHARE]]


def run_side_by_side(tasks: list[Callable[[], None]]) -> None:
    """Runs each in a thread of its own; what is wrong with one does not end the others."""
    with ThreadPoolExecutor(len(tasks)) as threads:
        started = [threads.submit(task) for task in tasks]
    faults = [fault for task in started if (fault := task.exception())]
    for fault in faults:
        if not isinstance(fault, Failure):
            raise fault
    if faults:
        raise Failure("\n".join(map(str, faults)))


def fingerprint_of(options: argparse.Namespace) -> str:
    """Changes whenever a result could: with the binary, with a file of this folder, with the options."""
    digest = hashlib.sha256(f"{options.cases} {options.seed}".encode())
    sources = [path for path in HERE.iterdir() if path.is_file()]
    for path in [options.binary, *sorted(sources)]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def stop(*_: object) -> None:
    """Ends what was started, and lets nothing more start; whoever waits for it then ends by itself."""
    STOPPED.set()
    for process in list(RUNNING):
        process.terminate()


def parse_arguments() -> argparse.Namespace:
    """The options, with their defaults."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=target / "debug" / "settle")
    parser.add_argument("--schemathesis", type=Path, required=True, help="the schemathesis executable")
    parser.add_argument("--output", type=Path, default=target / "schemathesis", help="logs, counts and the stamp")
    parser.add_argument("--cases", type=int, default=CASES_PER_OPERATION_MIN, help="at least so many an operation")
    parser.add_argument("--seed", type=int, default=SEED, help="another one tries other cases")
    parser.add_argument("--fresh", action="store_true", help="run even if nothing changed since the last pass")
    options = parser.parse_args()
    for name in ("binary", "schemathesis", "output"):
        setattr(options, name, getattr(options, name).absolute())
    if not options.binary.is_file():
        parser.error(f"{options.binary} is missing: cargo test --workspace --no-run")
    return options


def main() -> int:
    """Runs the fuzzers unless the stamp of the last pass is still good, and says how it went."""
    options = parse_arguments()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    stamp = options.output / "passed"
    fingerprint = fingerprint_of(options)
    if not options.fresh and stamp.is_file():
        before, _, table = stamp.read_text().partition("\n")
        if before == fingerprint:
            print(f"passed before, nothing changed since (--fresh runs it again)\n{table}", end="")
            return 0
    stamp.unlink(missing_ok=True)
    started = time.monotonic()
    try:
        table = run(options)
    except Failure as failure:
        print(f"FAILED after {time.monotonic() - started:.0f} s\n{failure}\nlogs: {options.output}", flush=True)
        return 1
    stamp.write_text(f"{fingerprint}\n{table}\n")
    print(f"passed in {time.monotonic() - started:.0f} s\n{table}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
