"""Generates clients from both OpenAPI documents with two generators, and lets them drive the real binary.

Lints the documents, generates a Python client (openapi-python-client) and TypeScript types (openapi-typescript, for
openapi-fetch), compiles what uses the types, starts the service on SQLite, and runs `journey.py` and `journey.ts`
against it. Needs only the standard library, Node, and the two folders of tools that `./test` installs.
"""

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

# No compiled files in the source tree.
sys.dont_write_bytecode = True

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# The document, what the TypeScript types are called, and the Python package that its title makes.
DOCUMENTS = (("openapi.json", "merchants"), ("operator-openapi.json", "operators"))

STEP_SECONDS_MAX = 300
START_SECONDS_MAX = 30
STOP_SECONDS_MAX = 20


class Failure(Exception):
    """A step did not pass; the text says why."""


def run(arguments: list[object], folder: Path, environment: dict[str, str] | None = None) -> str:
    """One program to its end, which must be a good one; returns what it printed."""
    arguments = [str(argument) for argument in arguments]
    # The rest may be a token.
    shown = " ".join(arguments[:2])
    try:
        done = subprocess.run(
            arguments,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as late:
        raise Failure(f"{shown} took too long:\n{late.output}") from late
    if done.returncode != 0:
        raise Failure(f"{shown} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Service:
    """The binary on SQLite and on ports that the system chooses, stopped by its process id."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self.command = [str(binary)]
        self.folder = folder
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SETTLE_")},
            "SETTLE_DATA_DIR": str(folder / "data"),
            "SETTLE_API__LISTEN": "127.0.0.1:0",
            "SETTLE_OPERATOR__LISTEN": "127.0.0.1:0",
            # The receivers of the journeys.
            "SETTLE_WEBHOOK__ALLOW_NETWORKS": "127.0.0.0/8",
            "SETTLE_WEBHOOK__ALLOW_HTTP": "true",
        }
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.logged: list[str] = []

    def __enter__(self) -> "Service":
        self.process = subprocess.Popen(
            [*self.command, "serve"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self.read, daemon=True).start()
        try:
            self.api = self.listens("the merchant API listens")
            self.operator = self.listens("the operator's listener listens")
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
            self.process.wait()

    def read(self) -> None:
        for line in self.process.stderr:
            self.lines.put(line)
        self.lines.put(None)

    def listens(self, message: str) -> str:
        """Waits for the line of the log with this message; returns the address in it."""
        while True:
            try:
                line = self.lines.get(timeout=START_SECONDS_MAX)
            except queue.Empty:
                line = None
            if line is None:
                raise Failure(f"the service does not start:\n{''.join(self.logged)}")
            self.logged.append(line)
            if message in line:
                return f"http://{json.loads(line)['address']}"

    def token(self, name: str) -> str:
        """A new operator's token."""
        command = [*self.command, "operator", "create", name, "--quiet"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=START_SECONDS_MAX
        )
        if done.returncode != 0:
            raise Failure(f"no operator can be made:\n{done.stderr}")
        return done.stdout.strip()


def generate_python(options: argparse.Namespace, folder: Path) -> dict[str, str]:
    """Generates the packages; returns the environment in which they can be imported."""
    tool = options.python / "bin" / "openapi-python-client"
    # It formats what it has written with ruff, which stands beside it.
    path = {"PATH": f"{tool.parent}:{os.environ['PATH']}"}
    for document, name in DOCUMENTS:
        arguments = ["--path", ROOT / document, "--meta", "none", "--output-path", folder / name]
        run([tool, "generate", "--fail-on-warning", *arguments], folder, path)
    packages = folder / "packages"
    packages.mkdir()
    (folder / "merchants").rename(packages / "settle_client")
    (folder / "operators").rename(packages / "settle_for_operators_client")
    return {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}


def generate_typescript(options: argparse.Namespace, folder: Path) -> Path:
    """Generates the types and compiles the journey; returns the compiled program."""
    modules = options.node / "node_modules"
    (folder / "node_modules").symlink_to(modules)
    for name in ("package.json", "tsconfig.json", "journey.ts"):
        shutil.copy(HERE / name, folder)
    for document, name in DOCUMENTS:
        tool = modules / "openapi-typescript" / "bin" / "cli.js"
        run(["node", tool, ROOT / document, "--output", folder / f"{name}.d.ts"], folder)
    run(["node", modules / "typescript" / "bin" / "tsc"], folder)
    return folder / "journey.js"


def main() -> int:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", type=Path, default=target / "debug" / "settle")
    parser.add_argument("--python", type=Path, required=True, help="the virtual environment of the Python tools")
    parser.add_argument("--node", type=Path, required=True, help="the folder of node_modules")
    options = parser.parse_args()
    for name in ("binary", "python", "node"):
        setattr(options, name, getattr(options, name).absolute())

    with tempfile.TemporaryDirectory(prefix="settle-clients-") as name:
        folder = Path(name)
        try:
            shutil.copy(HERE / "lint.mjs", options.node)
            run(["node", options.node / "lint.mjs", *(ROOT / document for document, _ in DOCUMENTS)], ROOT)
            print("lint: clean")
            typescript = folder / "typescript"
            typescript.mkdir()
            program = generate_typescript(options, typescript)
            packages = generate_python(options, folder)
            with Service(options.binary, folder) as service:
                addresses = [service.api, service.operator]
                interpreter = options.python / "bin" / "python"
                journeys = (
                    ([interpreter, HERE / "journey.py", *addresses, service.token("python")], folder, packages),
                    (["node", program, *addresses, service.token("typescript")], typescript, None),
                )
                for journey in journeys:
                    print(run(*journey), end="")
        except Failure as failure:
            print(f"FAILED: {failure}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
