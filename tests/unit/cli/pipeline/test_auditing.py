"""What the exit code of ``audit`` and ``verify`` tells a scheduler."""

import pytest

pytest.importorskip("pyspark")

from tidelog.cli import main
from tidelog.cli.failure import CommandFailed, ProblemFound
from tidelog.cli.pipeline.auditing import _failure
from tidelog.spark.pipelines import AuditReport, VerifyReport
from tidelog.spark.pipelines.audit import Finding
from tidelog.spark.pipelines.verify import Finding as ArchiveFinding


def audited(*kinds: str) -> AuditReport:
    found = [Finding(kind, "orders", 0, 7, "broker 1", "a reason", "") for kind in kinds]
    return AuditReport([], found, dict.fromkeys(kinds, 1))


def verified(*kinds: str) -> VerifyReport:
    found = [ArchiveFinding(kind, "orders", "id", 0, 7, "a reason") for kind in kinds]
    return VerifyReport([], found, dict.fromkeys(kinds, 1), covers_values=True)


def code(audit: AuditReport | None, verify: VerifyReport | None) -> int:
    failure = _failure(audit, verify)
    return 0 if failure is None else failure.exit_code


def test_a_problem_in_the_data_is_told_from_a_check_that_could_not_be_made() -> None:
    assert (CommandFailed.exit_code, ProblemFound.exit_code) == (1, 3)
    assert code(audited(), verified()) == code(None, verified()) == code(audited(), None) == 0
    assert code(audited("differs"), verified()) == code(audited(), verified("missing")) == 3
    assert code(audited("unread"), None) == 1
    assert code(audited("unread", "corrupt"), None) == code(audited("unread"), verified("missing")) == 3


@pytest.mark.parametrize(("failure", "expected"), [(CommandFailed("x"), 1), (ProblemFound("x"), 3)])
def test_the_process_exits_with_it(
    monkeypatch: pytest.MonkeyPatch, failure: CommandFailed, expected: int
) -> None:
    def failing(*_: object, **more: object) -> None:
        raise failure

    monkeypatch.setattr("tidelog.cli.pipeline.auditing.spark_session", failing)
    assert main(["pipeline", "verify", "/data/orders"]) == expected
