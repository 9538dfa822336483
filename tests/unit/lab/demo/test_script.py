"""Scripts are read, and mistakes in them are named."""

import pytest

from tidelog.lab.demo.script import ScriptError, Step, parse


def test_steps_are_in_the_order_of_time() -> None:
    found = parse("5s heal; 2s kill leader ;3.5 freeze 2;", 3)
    assert found == [Step(2.0, "kill", "leader"), Step(3.5, "freeze", "2"), Step(5.0, "heal", "")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kill 1", "no step of a script"),
        ("2s burn 1", "actions kill, freeze, cut, heal"),
        ("2s kill", "does not say which broker"),
        ("2s kill 4", "no broker 4; use leader, or 1 to 3"),
        ("2s heal x", "no broker x"),
    ],
)
def test_mistakes(text: str, said: str) -> None:
    with pytest.raises(ScriptError, match=said):
        parse(text, 3)
