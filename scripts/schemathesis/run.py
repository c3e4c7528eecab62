"""Fuzzes the real binary through its OpenAPI document, on both stores, and proves how much was tried.

For each store: start the service on free ports with an empty database, give it a merchant, a key, settlements
and deliveries, run schemathesis with all checks, then count the cases of every operation in its report. It fails
when a check fails, when an operation with input to vary got fewer than the wanted number of cases, and when an
operation never once succeeded (then only its errors were tested).

A store that passed is not run again until the binary or a file of this folder changes: the stamp lies beside the
logs, in `target/schemathesis`. `--fresh` ignores it.

Needs only the standard library; the PostgreSQL store needs TEST_POSTGRES_URL (see `scripts/with-postgres`).
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

# No compiled files in the source tree.
sys.dont_write_bytecode = True

from dns_stub import NETWORK, DnsStub
from report import operations_of, problems_of, table_of, tally_of
from seed_data import settlement_lines

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STORES = ("sqlite", "postgres")
DATABASE_NAME = "settle_schemathesis"

CASES_PER_OPERATION_MIN = 2_000
# A run is the same tomorrow: a failure is somebody's change, never a lucky draw.
SEED = 20_240_229
READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 20
KILLED_SECONDS_MAX = 10
PROGRAM_SECONDS_MAX = 60
# Several times what a store takes on two cores.
RUN_SECONDS_MAX = 1_800
REQUEST_SECONDS_MAX = 10
LOG_LINES_SHOWN = 150

DEAD_DELIVERIES = 150
PENDING_DELIVERIES = 50
WEBHOOK = {"webhook_url": "https://hooks.example.com/settle", "webhook_secret": "whsec_schemathesis"}

# Below the range from which the kernel hands out ports to clients, so that none of them takes a port between
# the moment it is found free and the moment the service binds it.
PORTS = range(15_000, 30_000)
PORTS_LOCK = threading.Lock()
PORTS_TAKEN: set[int] = set()

RUNNING: set[subprocess.Popen] = set()


class Failure(Exception):
    """The run of one store did not pass; the text says why."""


def free_port() -> int:
    """A loopback port that nothing listens on and that this run has not given out before."""
    with PORTS_LOCK:
        for port in random.sample(PORTS, 1_000):
            if port in PORTS_TAKEN:
                continue
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            PORTS_TAKEN.add(port)
            return port
    raise Failure("no free port found")


def request(method: str, url: str, key: str | None = None, body: object = None) -> tuple[int, bytes]:
    """One HTTP exchange, whatever its status."""
    outgoing = urllib.request.Request(url, method=method)
    if key is not None:
        outgoing.add_header("Authorization", f"Bearer {key}")
    if body is not None:
        outgoing.data = json.dumps(body).encode()
        outgoing.add_header("Content-Type", "application/json")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(outgoing, timeout=REQUEST_SECONDS_MAX) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def tail_of(path: Path) -> str:
    """The last lines of a log."""
    lines = path.read_text(errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES_SHOWN:])


def complaints_of(path: Path) -> str:
    """The last lines of the service's log that say why it answered with a fault of its own."""
    lines = path.read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if '"level":"INFO"' not in line][-LOG_LINES_SHOWN:])


class Service:
    """The binary under test with a store of its own, stopped by its process id."""

    def __init__(self, binary: Path, database_url: str, data: Path, logs: Path, nameserver: str) -> None:
        self.api = f"http://127.0.0.1:{free_port()}"
        self.operator = f"http://127.0.0.1:{free_port()}"
        self.binary = binary
        self.log = logs / "service.log"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SETTLE_")},
            "SETTLE_DATA_DIR": str(data),
            "SETTLE_DATABASE_URL": database_url,
            "SETTLE_API__LISTEN": self.api.removeprefix("http://"),
            "SETTLE_OPERATOR__LISTEN": self.operator.removeprefix("http://"),
            "SETTLE_API__REQUESTS_PER_SECOND": "0",
            "SETTLE_API__WRONG_CREDENTIALS_PER_SECOND": "0",
            "SETTLE_WEBHOOK__NAMESERVERS": nameserver,
            "SETTLE_WEBHOOK__ALLOW_NETWORKS": NETWORK,
        }
        self.directory = data
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> "Service":
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve"],
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        RUNNING.add(self.process)
        try:
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(KILLED_SECONDS_MAX)
        RUNNING.discard(self.process)

    def wait_until_ready(self) -> None:
        """Asks /readyz until it is 200, the process has ended, or the time is up."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        seen = "no answer"
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(f"the service ended with {self.process.returncode}:\n{tail_of(self.log)}")
            try:
                status, _ = request("GET", f"{self.operator}/readyz")
                if status == 200:
                    return
                seen = f"status {status}"
            except OSError as error:
                seen = str(error)
            time.sleep(0.1)
        raise Failure(f"not ready after {READY_SECONDS_MAX} s ({seen}):\n{tail_of(self.log)}")

    def check_alive(self) -> None:
        """Fails when the fuzzing ended the service or made it unready."""
        if self.process.poll() is not None:
            raise Failure(f"the service ended with {self.process.returncode}:\n{tail_of(self.log)}")
        status, _ = request("GET", f"{self.operator}/readyz")
        if status != 200:
            raise Failure(f"/readyz answers {status} after the run:\n{tail_of(self.log)}")
        if "panicked at" in self.log.read_text(errors="replace"):
            raise Failure(f"the service panicked:\n{tail_of(self.log)}")

    def command(self, *arguments: str) -> str:
        """Runs a command of the binary against the same store; gives its standard output."""
        done = subprocess.run(
            [self.binary, *arguments],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PROGRAM_SECONDS_MAX,
        )
        if done.returncode != 0:
            raise Failure(f"settle {' '.join(arguments)} ended with {done.returncode}:\n{done.stderr}{done.stdout}")
        return done.stdout

    def call(self, method: str, path: str, key: str, body: object = None) -> dict:
        """One request to the merchant API that must succeed."""
        status, content = request(method, f"{self.api}{path}", key, body)
        if status != 200:
            raise Failure(f"{method} {path} answers {status}: {content.decode(errors='replace')}")
        return json.loads(content)


def seed(service: Service, data: Path) -> tuple[str, list[str]]:
    """Gives the service a merchant with settlements and deliveries; returns its key and dead delivery ids."""
    merchant = json.loads(service.command("merchant", "create", "Schemathesis", "--json"))["merchant_id"]
    key = json.loads(service.command("key", "create", merchant, "--json"))["api_key"]

    def import_settlements(first: int, count: int) -> None:
        service.call("PUT", "/v1/webhook", key, WEBHOOK)
        lines = data / f"settlements-{first}.jsonl"
        lines.write_text("".join(f"{line}\n" for line in settlement_lines(merchant, first, count)))
        service.command("settlement", "import", str(lines), "--notify")

    import_settlements(0, DEAD_DELIVERIES)
    # Clearing the endpoint is what makes its pending deliveries dead, and only dead ones can be redelivered.
    service.call("PUT", "/v1/webhook", key, {"webhook_url": None})
    import_settlements(DEAD_DELIVERIES, PENDING_DELIVERIES)

    dead = service.call("GET", "/v1/webhook/deliveries?status=dead&limit=200", key)["deliveries"]
    if not dead:
        raise Failure("no delivery is dead after its endpoint was cleared: nothing to redeliver")
    return key, [delivery["delivery_id"] for delivery in dead]


def fuzz(tool: Path, service: Service, key: str, logs: Path, cases: int, seed_number: int) -> int:
    """Runs schemathesis in the folder of the logs; returns its exit code."""
    arguments = [
        tool,
        "--config-file",
        logs / "schemathesis.toml",
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
        str(cases),
        "--seed",
        str(seed_number),
        "--workers",
        "1",
        "--continue-on-failure",
        "--report",
        "ndjson",
        "--report-ndjson-path",
        logs / "events.ndjson",
    ]
    with (logs / "schemathesis.log").open("wb") as log:
        process = subprocess.Popen(
            [str(argument) for argument in arguments],
            cwd=logs,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        RUNNING.add(process)
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


def run_store(store: str, options: argparse.Namespace, logs: Path) -> str:
    """The whole run of one store; returns the table of what was tried."""
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    for name in ("schemathesis.toml", "hooks.py"):
        shutil.copy(HERE / name, logs)
    with tempfile.TemporaryDirectory(prefix=f"settle-schemathesis-{store}-") as folder, DnsStub() as dns:
        data = Path(folder)
        with Service(options.binary, database_url(store, data), data, logs, dns.address) as service:
            key, delivery_ids = seed(service, data)
            quoted = "".join(f'"{delivery_id}"\n' for delivery_id in delivery_ids)
            (logs / "delivery_ids.dict").write_text(quoted)
            document = service.call("GET", "/openapi.json", key)
            exit_code = fuzz(options.schemathesis, service, key, logs, options.cases, options.seed)
            if exit_code != 0:
                raise Failure(
                    f"schemathesis ended with {exit_code}:\n{tail_of(logs / 'schemathesis.log')}\n"
                    f"the service's warnings and errors:\n{complaints_of(service.log)}"
                )
            service.check_alive()

    operations = operations_of(document)
    tally = tally_of(logs / "events.ndjson", operations)
    table = table_of(tally, operations)
    problems = problems_of(tally, operations, options.cases)
    if problems:
        raise Failure(table + "\n" + "\n".join(problems))
    # Megabytes that nobody reads after a pass.
    (logs / "events.ndjson").unlink()
    return table


def fingerprint_of(store: str, options: argparse.Namespace) -> str:
    """Changes whenever a result could: with the binary, with a file of this folder, with the options."""
    digest = hashlib.sha256(f"{store} {options.cases} {options.seed}".encode())
    sources = [path for path in HERE.iterdir() if path.is_file()]
    for path in [options.binary, *sorted(sources)]:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def check_store(store: str, options: argparse.Namespace, verdicts: dict[str, bool]) -> None:
    """Runs one store unless its stamp is still good, and says how it went."""
    stamp = options.output / f"{store}.passed"
    fingerprint = fingerprint_of(store, options)
    if not options.fresh and stamp.is_file() and stamp.read_text().startswith(fingerprint):
        verdicts[store] = True
        print(f"{store}: passed before, nothing changed since (--fresh runs it again)\n{stamp_table(stamp)}")
        return
    stamp.unlink(missing_ok=True)
    logs = options.output / store
    started = time.monotonic()
    try:
        table = run_store(store, options, logs)
    except Failure as failure:
        print(f"{store}: FAILED after {time.monotonic() - started:.0f} s\n{failure}\nlogs: {logs}", flush=True)
        return
    stamp.write_text(f"{fingerprint}\n{table}\n")
    verdicts[store] = True
    print(f"{store}: passed in {time.monotonic() - started:.0f} s\n{table}", flush=True)


def stamp_table(stamp: Path) -> str:
    """The table that was written with a stamp."""
    return stamp.read_text().partition("\n")[2].rstrip("\n")


def stop(*_: object) -> None:
    """Ends what was started; the threads that wait for it then end by themselves."""
    for process in list(RUNNING):
        process.terminate()
    sys.exit(1)


def parse_arguments() -> argparse.Namespace:
    """The options, with their defaults."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stores", nargs="*", help=f"which stores to run ({', '.join(STORES)}; all of them)")
    parser.add_argument("--binary", type=Path, default=target / "debug" / "settle")
    parser.add_argument("--schemathesis", type=Path, required=True, help="the schemathesis executable")
    parser.add_argument("--output", type=Path, default=target / "schemathesis", help="logs, reports and stamps")
    parser.add_argument("--cases", type=int, default=CASES_PER_OPERATION_MIN, help="at least so many an operation")
    parser.add_argument("--seed", type=int, default=SEED, help="another one tries other cases")
    parser.add_argument("--fresh", action="store_true", help="run even if nothing changed since the last pass")
    options = parser.parse_args()
    unknown = set(options.stores) - set(STORES)
    if unknown:
        parser.error(f"no such store: {', '.join(sorted(unknown))}")
    for name in ("binary", "schemathesis", "output"):
        setattr(options, name, getattr(options, name).absolute())
    if not options.binary.is_file():
        parser.error(f"{options.binary} is missing: cargo test --workspace --no-run")
    return options


def main() -> int:
    """Runs the stores side by side: each keeps about one core busy."""
    options = parse_arguments()
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    stores = options.stores or list(STORES)
    verdicts: dict[str, bool] = {}
    threads = [threading.Thread(target=check_store, args=(store, options, verdicts)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0 if all(verdicts.get(store) for store in stores) else 1


if __name__ == "__main__":
    sys.exit(main())
