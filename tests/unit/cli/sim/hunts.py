"""Hunts that are quick."""

import json
from typing import Any

from typer.testing import CliRunner

from tidelog.cli.app import app


def sim(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["sim", *arguments])
    assert result.exit_code == 0, result.output
    summary: dict[str, Any] = json.loads(result.output.splitlines()[-1])
    return summary
