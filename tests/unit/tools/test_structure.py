"""The figures of the structure, counted in a small checkout."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[3] / "tools"


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tidelog_structure", TOOLS / "structure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCE = """
class Large:
    kind: ClassVar[int] = 3
    size: int

    def __init__(self):
        self.size = self.other = 1
        self.told = lambda: None

    @property
    def twice(self):
        return 2 * self.size


class Small(NamedTuple):
    done: Callable[[], None]


class Quoted(NamedTuple):
    then: "Callable[[int], Effects]"


def outside(replica, driver):
    from tidelog.log import log
    replica.epoch = 3
    driver.restless = True
"""

MAP = """
## Four walks through the code

### A produce
1. `broker/some.py: Large.twice` and `Large.twice` and `broker/some.py: outside`, `other.py`.

## Elsewhere
`broker/third.py: f`
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for path in ("broker/some.py", "broker/__init__.py", "broker/handlers/first.py", "controller/effects.py"):
        file = tmp_path / "src" / "tidelog" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("" if "some" not in path and "effects" not in path else SOURCE)
    (tmp_path / "ARCHITECTURE.md").write_text(MAP)
    return tmp_path


def test_the_figures_of_a_checkout(structure: ModuleType, checkout: Path) -> None:
    sources = structure.Sources(checkout)
    assert [str(each) for each in structure.class_sizes(sources)][:1] == ["`Large` (2, 3)"]
    assert structure.files_per_folder(sources, "broker") == {"broker": 1, "broker/handlers": 1}
    assert structure.writes_from_outside(sources) == 2
    assert structure.fields_of_others(sources) == 4
    assert structure.lambda_fields(sources) == 2
    assert structure.inner_imports(sources) == 2
    assert structure.messages_with_callbacks(sources) == ["Quoted", "Small"]
    (checkout / "src" / "tidelog" / structure.SHARED_EFFECTS).write_text(SOURCE)
    assert structure.messages_with_callbacks(sources) == ["Quoted", "Quoted", "Small", "Small"]
    assert structure.repeated_class_names(sources) == ["Large", "Quoted", "Small"]
    assert structure.duplicate_functions(sources) == ["outside"]
    assert structure.walks(sources.map_text) == [structure.Walk("A produce", 2, 2)]


@pytest.mark.slow
def test_the_figures_that_must_be_zero(structure: ModuleType) -> None:
    sources = structure.Sources(TOOLS.parent)
    assert (structure.writes_from_outside(sources), structure.mode_tests(sources)) == (0, 0)
    assert structure.inner_imports(sources) == 0
    assert structure.messages_with_callbacks(sources) == []
    assert len(structure.walks(sources.map_text)) == 4
