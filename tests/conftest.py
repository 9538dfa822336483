"""What every test may use. The broker fixtures come from Tidelog's own pytest plugin."""

import pytest

pytest_plugins = ["pytester"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden traces of tests/golden anew")
