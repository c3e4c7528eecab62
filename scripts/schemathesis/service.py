"""The service under test: the binary with a store of its own, and requests to it."""

import json
import os
import random
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from dns_stub import NETWORK

READY_SECONDS_MAX = 30
STOP_SECONDS_MAX = 20
REQUEST_SECONDS_MAX = 10
LOG_LINES_SHOWN = 150
KILLED_SECONDS_MAX = 10
PROGRAM_SECONDS_MAX = 60

# Below the range from which the kernel hands out ports to clients, so that none of them takes a port between
# the moment it is found free and the moment the service binds it.
PORTS = range(15_000, 30_000)
PORTS_LOCK = threading.Lock()
PORTS_TAKEN: set[int] = set()

RUNNING: set[subprocess.Popen] = set()
STOPPED = threading.Event()


class Failure(Exception):
    """The run did not pass; the text says why."""


def start(arguments: list[str], **options: object) -> subprocess.Popen:
    """Starts a process that takes no input, and remembers it for whoever stops all."""
    if STOPPED.is_set():
        raise Failure("stopped by a signal")
    process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **options)
    RUNNING.add(process)
    return process


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

    def __init__(self, binary: Path, database_url: str, data: Path, log: Path, nameserver: str) -> None:
        self.api = f"http://127.0.0.1:{free_port()}"
        self.operator = f"http://127.0.0.1:{free_port()}"
        self.binary = binary
        self.log = log
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
            self.process = start([self.binary, "serve"], cwd=self.directory, env=self.environment, stdout=log)
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

    def call(self, method: str, path: str, key: str | None = None, body: object = None) -> dict:
        """One request to the merchant API that must succeed."""
        status, content = request(method, f"{self.api}{path}", key, body)
        if status != 200:
            raise Failure(f"{method} {path} answers {status}: {content.decode(errors='replace')}")
        return json.loads(content)
