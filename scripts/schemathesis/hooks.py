"""What is added to the fuzzer: every request goes to both stores; a filter; a memory."""

import functools
import json
from collections import Counter
from pathlib import Path

import schemathesis
from requests.structures import CaseInsensitiveDict
from schemathesis.checks import CheckContext, run_checks
from schemathesis.config import ProjectConfig
from schemathesis.core.failures import Failure
from schemathesis.core.transport import Response
from schemathesis.engine.run import PhaseName

# A delivery that one store knows is unknown to the other.
KNOWN_TO_ONE = {200, 404}
REDELIVER = "POST /v1/webhook/deliveries/{delivery_id}/redeliver"


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
        # Operations that have refused wrong credentials: it takes three requests to see it.
        self.authenticated: set[str] = set()

    def after_response(self, ctx: CheckContext, response: Response, case: schemathesis.Case) -> None:
        """Does for the other store what the fuzzer has done for the one it knows."""
        self.count(self.store, ctx, response, case)
        if ctx.phase is PhaseName.STATEFUL_TESTING:
            return
        transport = {**ctx.internals.transport_kwargs, "base_url": self.url, "headers": self.headers}
        answer = case.operation.schema.transport.send(case, **transport)
        self.count(self.other, ctx, answer, case)
        failures = self.failures(ctx, transport, answer, case)
        if failures:
            texts = "\n".join(f"{failure.title}\n{failure.message}" for failure in failures)
            raise AssertionError(f"On {self.other}, which answers {answer.status_code}:\n{texts}\n{answer.text}")
        statuses = {response.status_code, answer.status_code}
        if len(statuses) > 1 and not (case.operation.label == REDELIVER and statuses == KNOWN_TO_ONE):
            text = f"{self.store}: {response.status_code}, {self.other}: {answer.status_code}\n{answer.text}"
            raise AssertionError(f"The stores answer differently. {text}")

    def failures(self, ctx: CheckContext, transport: dict, answer: Response, case: schemathesis.Case) -> set[Failure]:
        """What the fuzzer's own checks find wrong with the other store's answer."""
        own = CheckContext(
            override=ctx.internals.override,
            auth=ctx.internals.auth,
            headers=CaseInsensitiveDict(self.headers),
            config=ctx.config,
            transport_kwargs=transport,
            response_checks=None,
            phase=ctx.phase,
            auth_enforced_operations=self.authenticated,
        )
        return run_checks(
            case=case,
            response=answer,
            ctx=own,
            checks=own.internals.checks,
            on_failure=lambda _, found, failure: found.add(failure),
        )

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
