#!/usr/bin/env python3
"""Kills a PostgreSQL under load and promotes its synchronous standby. The service is given both servers in one URL.

Bound: no acknowledged settlement is lost, and after the promotion the service acknowledges again and is ready.

    scripts/attacks/failover.py --binary target/release/settle
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import common

WRITERS = 4
BEFORE_SECONDS = 5
AFTER_SECONDS = 30
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 30
PROGRAM_SECONDS_MAX = 120
BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]


def as_postgres(*command: object) -> list[str]:
    """PostgreSQL refuses to run as root."""
    identity = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
    return [*identity, *map(str, command)]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A PostgreSQL that syncs."""

    def __init__(self, folder: Path, name: str) -> None:
        self.data, self.log, self.port = folder / name, folder / f"{name}.log", free_port()
        self.folder, self.process = folder, None

    def start(self, *settings: str) -> None:
        options = [part for setting in settings for part in ("-c", setting)]
        command = as_postgres(
            BINARIES / "postgres", "-D", self.data, "-k", self.folder, "-p", self.port, "-c", "listen_addresses=127.0.0.1", *options
        )
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        deadline = time.monotonic() + START_SECONDS_MAX
        ready = [str(BINARIES / "pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={self.port}"]
        while subprocess.run(ready, check=False, timeout=START_SECONDS_MAX).returncode != 0:
            if time.monotonic() > deadline:
                raise SystemExit(self.log.read_text())
            time.sleep(0.1)

    def ask(self, sql: str) -> str:
        command = [str(BINARIES / "psql"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres", "-Atc", sql, "postgres"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PROGRAM_SECONDS_MAX)
        return done.stdout.strip()

    def end(self, by: int) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(by)
            self.process.wait(STOP_SECONDS_MAX)


def clusters(folder: Path) -> tuple[Server, Server]:
    """A server, and one that follows it; a commit waits for both."""
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    first, second = Server(folder, "first"), Server(folder, "second")
    made = as_postgres(BINARIES / "initdb", "-D", first.data, "-U", "postgres", "-A", "trust", "-E", "UTF8")
    subprocess.run(made, check=True, capture_output=True, cwd=folder, timeout=PROGRAM_SECONDS_MAX)
    with (first.data / "pg_hba.conf").open("a") as rules:
        rules.write("host replication postgres 127.0.0.1/32 trust\n")
    first.start("synchronous_standby_names=*")
    copy = as_postgres(BINARIES / "pg_basebackup", "-h", "127.0.0.1", "-p", first.port, "-U", "postgres", "-D", second.data, "-R", "-X", "stream")
    subprocess.run(copy, check=True, capture_output=True, cwd=folder, timeout=PROGRAM_SECONDS_MAX)
    second.start("synchronous_standby_names=")
    while first.ask("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") != "1":
        time.sleep(0.1)
    return first, second


def main() -> None:
    given = common.arguments(__doc__.splitlines()[0])
    with tempfile.TemporaryDirectory(prefix="settle-failover-") as folder:
        first, second = clusters(Path(folder))
        try:
            attack(given, first, second)
        finally:
            first.end(signal.SIGINT)
            second.end(signal.SIGINT)


def attack(given, first: Server, second: Server) -> None:
    hosts = f"127.0.0.1:{first.port},127.0.0.1:{second.port}"
    url = f"postgres://postgres@{hosts}/postgres?target_session_attrs=read-write"
    acknowledged: dict[str, float] = {}
    with common.service(given, SETTLE_DATABASE_URL=url) as service:
        merchant, key = service.merchant("Fail over")
        token = service.operator()
        ended = threading.Event()
        with service.serve() as running:

            def write() -> None:
                while not ended.is_set():
                    row = common.settlement(len(acknowledged)) | {"merchant_id": merchant}
                    try:
                        status, _ = common.call(running.operator, "POST", "/operator/v1/settlements", token, row)
                    except OSError:
                        status = 0
                    if status == 200:
                        acknowledged[row["settlement_id"]] = time.monotonic()
                    else:
                        ended.wait(0.1)

            threads = [threading.Thread(target=write, daemon=True) for _ in range(WRITERS)]
            for thread in threads:
                thread.start()
            time.sleep(BEFORE_SECONDS)
            first.end(signal.SIGQUIT)
            killed = time.monotonic()
            before = len(acknowledged)
            second.ask("SELECT pg_promote()")
            promoted = time.monotonic()
            time.sleep(AFTER_SECONDS)
            ended.set()
            for thread in threads:
                thread.join(10)
            listed = json.loads(common.call(running.api, "GET", "/v1/settlements?limit=1", key)[1])["total"]
            ready = common.call(running.operator, "GET", "/readyz")
    stored = set(second.ask("SELECT settlement_id FROM settlements").split())
    lost = [settlement for settlement in acknowledged if settlement not in stored]
    again = min((at for at in acknowledged.values() if at > killed), default=None)
    words = "never" if again is None else f"{again - killed:.1f} s after the kill, {again - promoted:.1f} s after the promotion"
    print(
        f"fail-over: {before} acknowledged before, {len(acknowledged) - before} after, {len(lost)} of them lost; "
        f"acknowledged again {words}; {listed} listed; /readyz {ready[0]} {ready[1].decode()}"
    )
    verdict = common.Verdict()
    verdict.at_least("acknowledged before", before, 1)
    verdict.at_most("lost", len(lost), 0)
    verdict.at_least("acknowledged after", len(acknowledged) - before, 1)
    verdict.holds(f"/readyz in the end: {ready[0]}, must be 200", ready[0] == 200)
    verdict.end()


main()
