"""The documentation is true: generated pages are current, links lead somewhere, examples are accepted."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tidelog_docs_tool", ROOT / "tools" / "docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_pages_of_this_repository_are_true(docs: ModuleType) -> None:
    assert [str(problem) for problem in docs.stale_pages()] == []
    assert [str(problem) for page in docs.pages() for problem in docs.check_page(page)] == []
    assert [str(problem) for problem in docs.check_map()] == []


def test_names_of_code_that_do_not_exist_are_found(
    docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    (tmp_path / "src/tidelog/log").mkdir(parents=True)
    (tmp_path / "src/tidelog/log/log.py").write_text("class Log:\n    def append(self) -> None: ...\n")
    (tmp_path / "docs/decisions").mkdir(parents=True)
    (tmp_path / "docs/decisions/0001-a.md").write_text("`log/log.py: Log.append` and `log/lag.py`\n")
    (tmp_path / "ARCHITECTURE.md").write_text(
        "`log/log.py: Log.depend`, `log/`, `a/b`, `Log.append`, `Log.amend` and `Lag.append`\n"
    )
    assert [str(problem) for problem in docs.check_map()] == [
        "ARCHITECTURE.md: does not list docs/decisions/0001-a.md",
        "ARCHITECTURE.md: `log/log.py` defines no Log.depend",
        "ARCHITECTURE.md: `Log.amend`: Log has no amend",
        "ARCHITECTURE.md: `Lag.append`: there is no class Lag",
        "docs/decisions/0001-a.md: `log/lag.py` is no file of the project",
    ]


def test_what_is_wrong_with_a_page_is_found(
    docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "ROOT", tmp_path)
    (tmp_path / "dev").write_text("        up) exec tidelog ;;\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# A `heading`\n[good](#a-heading) [good](page.md) [good](https://example.org/)\n"
        "[bad](nowhere.md) [bad](#b-heading)\n"
        "```console\n$ echo x | tidelog produce t --key=k\n$ tidelog topic frobnicate\n"
        "$ tidelog up --no-such\n$ ./dev up\n$ ./dev fly\n```\n"
        "```python\nx = = 1\n```\n```toml\na = = 1\n```\n```text\n[not](a-link.md)\n```\n"
    )
    found = [problem.sentence for problem in docs.check_page(page)]
    expected = [
        "nowhere.md leads nowhere",
        "#b-heading names no heading",
        "topic frobnicate",
        "up --no-such",
        "./dev fly",
        "Python example",
        "TOML example",
    ]
    assert len(found) == len(expected), found
    for part, sentence in zip(expected, found, strict=True):
        assert part in sentence
