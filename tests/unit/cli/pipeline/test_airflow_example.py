"""The Airflow example: its DAGs load, and what they run is understood by this version's commands.

Without Airflow (it is heavy, and no dependency) stand-ins take its place: they show that the file uses the
names that Airflow 3 has, and what the shell makes of its commands. Where Airflow is installed, it loads and
runs them.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[4] / "examples" / "airflow" / "dags"


class StandInDag:
    def __init__(self, dag_id: str, **settings: Any) -> None:
        self.dag_id, self.settings = dag_id, settings

    def __enter__(self) -> "StandInDag":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the tasks of the example run, by task."""
    found: dict[str, str] = {}

    def operator(*, task_id: str, bash_command: str) -> None:
        found[task_id] = bash_command

    parents = (
        "airflow",
        "airflow.providers",
        "airflow.providers.standard",
        "airflow.providers.standard.operators",
    )
    for name in parents:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sdk, bash = ModuleType("airflow.sdk"), ModuleType("airflow.providers.standard.operators.bash")
    sdk.DAG, bash.BashOperator = StandInDag, operator  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, sdk.__name__, sdk)
    monkeypatch.setitem(sys.modules, bash.__name__, bash)
    monkeypatch.setenv("ORDERS_ARCHIVE", "/data/it's {{ 1 }}")
    spec = importlib.util.spec_from_file_location("tidelog_orders", EXAMPLE / "tidelog_orders.py")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return found


def test_the_example_runs_commands_that_exist(commands: dict[str, str], tmp_path: Path) -> None:
    from typer.main import get_command

    from tidelog.cli.pipeline.commands import app

    echo = tmp_path / "tidelog"
    echo.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    echo.chmod(0o755)
    assert sorted(commands) == ["archive", "audit"]
    for name, command in commands.items():
        assert command.startswith("{% raw %}") and command.endswith("{% endraw %}")
        shell = command.removeprefix("{% raw %}").removesuffix("{% endraw %}")
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        ran = subprocess.run(
            ["/bin/sh", "-c", shell], env=environment, capture_output=True, check=True, timeout=60
        )
        pipeline, command_name, *words = json.loads(ran.stdout)
        assert (pipeline, command_name) == ("pipeline", name)
        given = get_command(app).commands[name].make_context(name, words).params  # type: ignore[attr-defined]
        assert "/data/it's {{ 1 }}" in given.values() and given["topics"] == "orders"


def airflow_python() -> str:
    python = os.environ.get("TIDELOG_TEST_AIRFLOW")
    if python is None:
        pytest.importorskip("airflow", reason="TIDELOG_TEST_AIRFLOW names a Python that has Airflow")
    return python or sys.executable


def airflow_settings(home: Path) -> dict[str, str]:
    own = {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    # This project's own path would show Airflow other packages than its own.
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own


def test_airflow_loads_the_example(tmp_path: Path) -> None:
    code = (
        "from airflow.dag_processing.dagbag import DagBag\n"
        f"bag = DagBag({str(EXAMPLE)!r})\n"
        "assert not bag.import_errors, bag.import_errors\n"
        "print(sorted(bag.dags))"
    )
    ran = subprocess.run(
        [airflow_python(), "-c", code],
        env=airflow_settings(tmp_path),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "['tidelog_orders_archive', 'tidelog_orders_audit']" in ran.stdout


@pytest.mark.timeout(1800)
def test_airflow_runs_the_example(tmp_path: Path) -> None:
    """Its tasks, with a command of the name tidelog that notes how it was called."""
    airflow, noted = [airflow_python(), "-m", "airflow"], tmp_path / "noted"
    command = tmp_path / "bin" / "tidelog"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"print(json.dumps(sys.argv[1:]), file=open({str(noted)!r}, 'a'))\n"
    )
    command.chmod(0o755)
    environment = airflow_settings(tmp_path) | {
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLE),
        "ORDERS_ARCHIVE": "/data/it's {{ 1 }}",
        "PATH": f"{command.parent}:{os.environ['PATH']}",
    }
    for words in (
        ["db", "migrate"],
        *(["dags", "test", f"tidelog_orders_{one}"] for one in ("archive", "audit")),
    ):
        ran = subprocess.run([*airflow, *words], env=environment, capture_output=True, text=True, timeout=900)
        assert ran.returncode == 0, ran.stderr[-2000:]
    archived, audited = (json.loads(line) for line in noted.read_text().splitlines())
    assert archived[:5] == ["pipeline", "archive", "orders", "--to", "/data/it's {{ 1 }}"]
    assert audited[:5] == ["pipeline", "audit", "orders", "--archive", "/data/it's {{ 1 }}"]
