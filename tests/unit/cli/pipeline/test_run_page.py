"""The page about the last runs of an archive."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tidelog.cli.failure import CommandFailed
from tidelog.cli.pipeline.run_page import RUNS_MAX, drawn, on_page, runs_of

REPORT: dict[str, Any] = {
    "records": 1200, "undecodable": 3, "dead_letters": 0, "added_files": 4, "added_bytes": 56789,
    "merged_files": 0, "total": 98765, "files": 12, "total_bytes": 4321000, "lag": {"orders": 70, "bills": 0},
    "notes": ["Lost: orders-1 begins at offset 5."], "stopped": False,
}  # fmt: skip


def run(page: Path, report: dict[str, Any] = REPORT) -> None:
    with on_page(str(page), target="/data/orders", topics="orders,bills") as done:
        done(report)


def test_each_run_is_a_line_and_stays_one(tmp_path: Path) -> None:
    page = tmp_path / "orders.html"
    run(page)
    run(page, REPORT | {"stopped": True, "records": 7})
    text = page.read_text()
    for said in ("98,765 records", "1,200", "56,789", "orders: 70", "begins at offset 5", "stopped"):
        assert said in text
    assert "bills: 0" not in text
    assert text.index(">7<") < text.index(">1,200<"), "the newest run is not the first"
    assert [one["records"] for one in runs_of(page)] == [1200, 7]
    assert [one.name for one in tmp_path.iterdir()] == ["orders.html"]


def test_a_run_that_fails_is_on_the_page_with_its_reason(tmp_path: Path) -> None:
    page = tmp_path / "orders.html"
    with pytest.raises(CommandFailed), on_page(str(page), target="/data/orders", topics="orders"):
        raise CommandFailed("No broker answers at <127.0.0.1>.")
    (found,) = runs_of(page)
    assert found["outcome"] == "failed" and found["duration_s"] >= 0
    assert 'class="text bad">failed<' in page.read_text() and "at &lt;127.0.0.1&gt;." in page.read_text()
    run(page)
    assert "2 runs, 1 of them failed; 98,765 records" in page.read_text()


def test_nothing_in_a_name_becomes_part_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "orders.html"
    run(page, REPORT | {"notes": ["</script><script>alert(1)</script>"], "lag": {"<b>": 1}})
    run(page)
    assert "alert(1)</script>" not in page.read_text() and "<b>" not in page.read_text()
    assert runs_of(page)[0]["notes"] == ["</script><script>alert(1)</script>"]
    assert "<i>" not in drawn(runs_of(page), "<i>", "<i>")


def test_the_page_does_not_grow_for_ever(tmp_path: Path) -> None:
    page = tmp_path / "orders.html"
    many = [{"began": "", "outcome": "done", "duration_s": 1.0, "records": n} for n in range(RUNS_MAX)]
    page.write_text(drawn(many, "/data/orders", "orders"))
    run(page)
    assert len(runs_of(page)) == RUNS_MAX
    assert runs_of(page)[0]["records"] == 1 and runs_of(page)[-1]["records"] == 1200


def test_runs_that_end_together_are_all_there(tmp_path: Path) -> None:
    page = tmp_path / "orders.html"
    threads = [threading.Thread(target=run, args=(page,)) for _ in range(12)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(runs_of(page)) == 12


@pytest.mark.parametrize(
    "content", ["my notes", '<script type="application/json" id="tidelog-runs">{}</script>']
)
def test_another_file_is_not_overwritten(tmp_path: Path, content: str) -> None:
    page = tmp_path / "orders.html"
    page.write_text(content)
    with pytest.raises(CommandFailed, match=r"is not a page of --page"):
        run(page)
    assert page.read_text() == content


def test_a_place_that_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    began: list[bool] = []
    for place in (tmp_path / "missing" / "orders.html", tmp_path):
        with pytest.raises(CommandFailed, match="cannot be"), on_page(str(place), target="/d", topics="t"):
            began.append(True)
    assert not began


def test_a_page_that_cannot_be_written_in_the_end_does_not_spoil_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "orders.html"
    with on_page(str(page), target="/data/orders", topics="orders") as done:
        done(REPORT)
        page.mkdir()
    assert "could not be written" in capsys.readouterr().err


def test_without_a_page_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with on_page(None, target="orders", topics="orders") as done:
        done(REPORT)
    assert list(tmp_path.iterdir()) == []
