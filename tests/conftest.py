"""What every test may use, and in which order and on which worker tests run.

The broker fixtures come from Tidelog's own pytest plugin. With ``--dist loadfile``, as ``./dev test`` has it,
a file's tests stay together: they may share a broker, and do not disturb each other. All Spark tests stay
together, too, because they share a session, which takes seconds to start and a gigabyte.
"""

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler.loadscope import LoadScopeScheduling

pytest_plugins = ["pytester"]

# The clusters of tests have no page, which would cost each of them a process. tests/browser starts its own.
os.environ["TIDELOG_NO_PAGE"] = "1"

TESTS = Path(__file__).parent
COLLECTOR_THRESHOLDS = (10_000, 10, 10)
# The files of each part are spread over this span of the run (0: begin, 1: end). Tests of real processes wait
# most of the time, so tests that only compute are spread between them. The last tests are short, so that no
# worker has to wait for another at the end.
SPAN = {
    "spark": (0.0, 0.0),
    "browser": (0.0, 0.8),
    "interop": (0.0, 0.9),
    "lab": (0.0, 0.8),
    "sim": (0.0, 0.95),
    "golden": (0.0, 0.9),
    "unit": (0.0, 1.0),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden traces of tests/golden anew")


def pytest_sessionstart() -> None:
    """What is imported and collected stays until the end: the garbage collector need not look at it."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Nor afterwards. It looks at the rest, less often than by default."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    files = dict.fromkeys(item.path for item in items)
    of_part: dict[str, list[Path]] = {}
    for file in files:
        of_part.setdefault(_part_of(file), []).append(file)
    place = {}
    for part, in_order in of_part.items():
        begin, end = SPAN.get(part, (1.0, 1.0))
        for index, file in enumerate(in_order):
            place[file] = (begin + (end - begin) * index / len(in_order), file)
    items.sort(key=lambda item: place[item.path])


def _part_of(file: Path) -> str:
    return file.relative_to(TESTS).parts[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "LoadScopeScheduling | None":
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler.loadscope import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return "tests/spark" if file.startswith("tests/spark/") else file

    config.option.loadscopereorder = False  # otherwise the files with the most tests, not the longest, begin
    return ByFile(config, log)
