"""Adds up what the fuzzers have counted: cases and answers of every operation, on each store."""

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# An operation that takes nothing but the language of its errors gets one in so many of the wanted cases.
LANGUAGE_ONLY_SHARE = 4


@dataclass(frozen=True)
class Operation:
    """An operation of the OpenAPI document, and the names of what it takes."""

    name: str
    inputs: frozenset[str]

    def cases_min(self, wanted: int) -> int:
        """How many cases it gets at least."""
        if not self.inputs:
            return 1
        return wanted // LANGUAGE_ONLY_SHARE if self.inputs == {"Accept-Language"} else wanted


@dataclass
class Tally:
    """What one operation has seen."""

    cases: Counter = field(default_factory=Counter)
    statuses: Counter = field(default_factory=Counter)

    @property
    def cases_total(self) -> int:
        """Cases over all phases."""
        return sum(self.cases.values())

    @property
    def has_succeeded(self) -> bool:
        """Whether any answer was a 2xx."""
        return any(200 <= status < 300 for status in self.statuses)


def operations_of(document: dict) -> list[Operation]:
    """Every operation of the document, in its order."""
    operations = []
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                parameters = [*item.get("parameters", []), *item[method].get("parameters", [])]
                inputs = {parameter["name"] for parameter in parameters}
                if "requestBody" in item[method]:
                    inputs.add("body")
                operations.append(Operation(f"{method.upper()} {path}", frozenset(inputs)))
    return operations


def tally_of(counts: list[Path], store: str, operations: list[Operation]) -> dict[str, Tally]:
    """What all fuzzers have counted on a store; a case with another method than its operation's is not one of it."""
    tally = {operation.name: Tally() for operation in operations}
    for path in counts:
        for counted, operation, phase, status, count in json.loads(path.read_text()):
            if counted == store and operation in tally:
                tally[operation].cases[phase] += count
                tally[operation].statuses[status] += count
    return tally


def table_of(tally: dict[str, Tally], operations: list[Operation]) -> str:
    """Cases and statuses of every operation, a line each."""
    lines = []
    for operation in operations:
        entry = tally[operation.name]
        phases = ", ".join(f"{phase} {count}" for phase, count in sorted(entry.cases.items()))
        statuses = ", ".join(f"{status}: {count}" for status, count in sorted(entry.statuses.items()))
        note = "" if operation.inputs else ", no input to vary"
        lines.append(f"  {operation.name}\n    {entry.cases_total} cases ({phases}{note}); answers {statuses}")
    return "\n".join(lines)


def problems_of(tally: dict[str, Tally], operations: list[Operation], wanted: int) -> list[str]:
    """Why the run proves too little; empty when it proves enough."""
    problems = []
    if not operations:
        problems.append("the OpenAPI document has no operation")
    for operation in operations:
        entry = tally[operation.name]
        cases_min = operation.cases_min(wanted)
        if entry.cases_total < cases_min:
            problems.append(f"{operation.name}: {entry.cases_total} cases, {cases_min} are wanted")
        if entry.cases_total > 0 and not entry.has_succeeded:
            problems.append(f"{operation.name}: never answered 2xx, only its errors were tested")
    return problems
