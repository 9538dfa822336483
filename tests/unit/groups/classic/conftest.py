"""Groups without members."""

import pytest

from unit.groups.group_harness import Groups


@pytest.fixture
def groups() -> Groups:
    return Groups()
