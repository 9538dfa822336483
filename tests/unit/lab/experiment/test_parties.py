"""Words that select parties."""

import pytest

from tidelog.lab.experiment.parties import Casting, NoSuchParty, resolve, resolve_between

NOW = Casting(brokers=(1, 2, 3, 4), leader=2, followers=(3, 1), controller=1, controllers=(1, 2, 3))


@pytest.mark.parametrize(
    ("words", "parties"),
    [
        ("leader", (2,)),
        ("follower", (3,)),
        ("followers", (3, 1)),
        ("controller", (1,)),
        ("controllers", (1, 2, 3)),
        ("all", (1, 2, 3, 4)),
        ("clients", ("clients",)),
        ("4", (4,)),
        ("leader+follower", (2, 3)),
        ("all+leader+clients", (1, 2, 3, 4, "clients")),
    ],
)
def test_roles_are_resolved(words: str, parties: tuple[int | str, ...]) -> None:
    assert resolve(words, NOW) == parties


def test_the_second_side_is_without_the_first() -> None:
    assert resolve_between(("leader", "all+clients"), NOW) == ((2,), (1, 3, 4, "clients"))


def test_a_role_that_nobody_has_is_no_party() -> None:
    with pytest.raises(NoSuchParty, match="no leader at this moment"):
        resolve("leader", NOW._replace(leader=-1))


def test_a_line_needs_two_sides() -> None:
    with pytest.raises(NoSuchParty, match="no broker is left"):
        resolve_between(("all", "leader"), NOW)
