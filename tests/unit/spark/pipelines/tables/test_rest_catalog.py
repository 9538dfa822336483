"""An Iceberg archive whose catalog is a service that fails: its answer to a commit says nothing certain."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from tidelog.spark.pipelines.tables import PositionMoved, TableError
from unit.spark.pipelines.tables.arrow_tables import Open, add, at, offsets, opener, records, undecodable
from unit.spark.pipelines.tables.rest_catalog import RestCatalog, rest_catalog

pytestmark = pytest.mark.slow


@pytest.fixture
def served(tmp_path: Path) -> Iterator[RestCatalog]:
    with rest_catalog(str(tmp_path)) as found:
        yield found


@pytest.fixture
def opened(served: RestCatalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    return opener("iceberg-rest", tmp_path, monkeypatch, served.url)


@pytest.mark.parametrize("lost", range(1, 5))
def test_a_commit_whose_answer_is_lost_counts_once(served: RestCatalog, opened: Open, lost: int) -> None:
    """Whichever commit it is: of the schema, of the partitions, of the records, of the undecodable ones. A
    run repeats what the table's position lacks, as the next run of the archive does.
    """
    add(opened(), 0, 5, records(0, 2, 3, 4), undecodable(1))
    first = served.commits

    def fail() -> None:
        if served.commits == first + lost:
            raise RuntimeError("the service was restarted")

    served.after_commit = fail
    for _ in range(5):
        begin = 5 if opened().position() == at(5) else 9
        end = {5: 9, 9: 12}[begin]
        broken = undecodable(begin + 1)
        kept = records(begin, *range(begin + 2, end))
        try:
            add(opened(), begin, end, kept, broken)
        except PositionMoved:  # by our own commit, whose answer was lost: the loop of steps plans again
            continue
        except TableError as failure:
            assert "the next run continues from what the table has" in str(failure)
            continue
        if end == 12:
            break
    assert served.commits >= first + lost
    opened().prepare(print)  # As each run begins.
    assert opened().position() == at(12)
    assert offsets(opened()) + offsets(opened(), "undecodable") == Counter(range(12))


def test_a_service_that_is_gone_is_one_sentence(
    served: RestCatalog, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(opened(), 0, 5)

    def fail(*_: object) -> str:
        raise RuntimeError("no database")

    monkeypatch.setattr(served, "answer", fail)
    with pytest.raises(TableError, match=r"cannot be opened \(.*no database\)"):
        opened().position()
