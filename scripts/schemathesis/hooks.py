"""What is added to the fuzzer: every request goes to both stores; a filter; a memory."""

import functools
import json
from collections import Counter
from pathlib import Path

import schemathesis
from schemathesis.checks import CHECKS, CheckContext
from schemathesis.config import ProjectConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.core.transport import Response
from schemathesis.engine.run import PhaseName

# Each store has deliveries of its own: what one knows is unknown to the other.
ANSWERS_DIFFER = {"POST /v1/webhook/deliveries/{delivery_id}/redeliver"}


@schemathesis.hook
def filter_case(context: schemathesis.HookContext, case: schemathesis.Case) -> bool:
    """Leaves out a `webhook_secret` of null, which the service takes for absent, and the document for a wrong type."""
    body = case.body
    return not (isinstance(body, dict) and "webhook_secret" in body and body["webhook_secret"] is None)


@schemathesis.check
class BothStores:
    """Sends each request to the service on the other store too, where all checks hold as well; counts the answers.

    The steps of a sequence go to one store only: they use ids of its answers.
    """

    def __init__(self, store: str, other: str, url: str, key: str, tally: str) -> None:
        self.store = store
        self.other = other
        self.url = url
        self.headers = {"Authorization": f"Bearer {key}"}
        self.tally = Path(tally)
        self.counts: Counter = Counter()
        # Those whose authentication was tried on the other store: it takes three requests.
        self.authenticated: set[str] = set()

    def after_response(self, ctx: CheckContext, response: Response, case: schemathesis.Case) -> None:
        """Does for the other store what the fuzzer has done for the one it knows."""
        self.count(self.store, ctx, response, case)
        if ctx.phase is PhaseName.STATEFUL_TESTING:
            return
        transport = {**ctx.internals.transport_kwargs, "base_url": self.url, "headers": self.headers}
        answer = case.call(**transport)
        self.count(self.other, ctx, answer, case)
        try:
            case.validate_response(answer, checks=self.checks(case), headers=self.headers, transport_kwargs=transport)
        except FailureGroup as failures:
            raise AssertionError(f"On {self.other}:\n{failures}") from None
        label = case.operation.label
        if 200 <= answer.status_code < 300:
            self.authenticated.add(label)
        if label not in ANSWERS_DIFFER:
            statuses = f"{self.store}: {response.status_code}, {self.other}: {answer.status_code}"
            assert answer.status_code == response.status_code, f"The stores answer differently: {statuses}"

    def checks(self, case: schemathesis.Case) -> list:
        """All checks of the fuzzer."""
        functions = [check for check in CHECKS.get_all() if not isinstance(check, type)]
        if case.operation.label in self.authenticated:
            return [check for check in functions if check.__name__ != "ignored_auth"]
        return functions

    def count(self, store: str, ctx: CheckContext, response: Response, case: schemathesis.Case) -> None:
        """A case with another method than its operation's is not one of it: see `tally_of` in report.py."""
        self.counts[store, f"{case.method.upper()} {case.path}", ctx.phase.value, response.status_code] += 1

    def after_run(self, ctx: CheckContext) -> None:
        """Writes down what was counted."""
        self.tally.write_text(json.dumps([[*what, count] for what, count in sorted(self.counts.items())]))


def remember_generation_settings() -> None:
    """Keeps what the settings say of generating cases for an operation.

    The fuzzer merges them anew for every case, which is a tenth of its time; during a run they do not change.
    """
    merged = ProjectConfig.generation_for
    known: dict[tuple[int, str | None, str | None], object] = {}

    @functools.wraps(merged)
    def remembered(self: ProjectConfig, *, operation: object = None, phase: str | None = None) -> object:
        key = (id(self), operation and operation.label, phase)
        if key not in known:
            known[key] = merged(self, operation=operation, phase=phase)
        return known[key]

    ProjectConfig.generation_for = remembered


remember_generation_settings()
