"""The command line as a whole: what it says when it fails, and what a broker's start does not import."""

import subprocess
import sys
from pathlib import Path

import pytest

from tidelog.cli import main
from tidelog.cli.config.admin import change_topic
from tidelog.cli.local.broker import BrokerArguments, parse_plain
from tidelog.errors import InvalidConfig

CLOSED_PORT = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["frobnicate"], 2, "No such command 'frobnicate'"),
        (["topic", "create"], 2, "Missing argument 'TOPIC'"),
        (["topic", "create", "x", "--partitions", "0"], 2, "Invalid value for '--partitions'"),
        (["topic", "create", "x", "--partitions", "1000000"], 2, "Invalid value for '--partitions'"),
        (["produce", "x", "--acks", "2"], 2, "Invalid value for '--acks': '2' is not one of"),
        (["broker"], 2, "Missing option '--config'"),
        (["broker", "--config", "no/such/file"], 1, "no/such/file cannot be read"),
        (["topic", "create", "x", "--set", "retention.ms"], 2, "--set takes KEY=VALUE"),
        (["topic", "alter", "x"], 2, "Nothing to change"),
        (["topic", "list", "--bootstrap", CLOSED_PORT], 1, "start one with `tidelog up`"),
        (["produce", "x", "--bootstrap", CLOSED_PORT], 1, "start one with `tidelog up`"),
        (["consume", "x", "--bootstrap", CLOSED_PORT], 1, "start one with `tidelog up`"),
        (["topic", "list", "--bootstrap", "localhost"], 2, "'localhost' is not an address"),
        (["topic", "reassign"], 2, "Name the topics to move, or pass --all"),
        (["topic", "reassign", "x", "--all"], 2, "Name the topics to move, or pass --all"),
        (["topic", "reassign", "x", "--throttle", "9"], 2, "--throttle needs --yes and --watch"),
        (["topic", "elect", "x", "--bootstrap", CLOSED_PORT], 1, "start one with `tidelog up`"),
        (["cluster", "status", "--bootstrap", CLOSED_PORT], 1, "start one with `tidelog up`"),
        (["cluster", "describe", "--bootstrap", "localhost"], 2, "'localhost' is not an address"),
        (["broker", "drain"], 2, "Missing argument 'ID'"),
        (["broker", "drain", "x"], 2, "Invalid value for 'ID'"),
        (["broker", "unregister", "2147483648"], 2, "Invalid value for 'ID'"),
        (["topic", "describe", "\udcff"], 2, "b'\\xff' is not UTF-8 text"),
        (["broker", "drain", "1", "--bootstrap", CLOSED_PORT], 1, "start one with `tidelog up`"),
        (["broker", "unregister", "1", "--bootstrap", CLOSED_PORT], 1, "start one with `tidelog up`"),
        (["consume", "x", "--from", "yesterday"], 2, "--from takes"),
        (["produce", "x", "--json", "--key-separator", ":"], 2, "--key-separator is for plain lines"),
        (["up", "--brokers", "2", "--port", "65535"], 2, "highest port is 65535"),
        (["topic", "create", "x", "--set", "retention.ms=1y"], 2, "'1y' is not a value of retention.ms"),
        (["topic", "alter", "x", "--mode", "isr", "--timeout", "banana"], 2, "'banana' is not a time"),
        (["txn", "list", "--longer-than", "-5s"], 2, "'-5s' is not a time"),
        (["cluster", "health", "--wait", "--timeout", "never"], 2, "'never' is not a time"),
        (["produce", "x", "--timeout", "0"], 2, "--timeout must be longer than 0 s"),
        (["produce", "x", "--timeout", "25d"], 2, "--timeout must be at most 24 days"),
        (["produce", "x", "--partition", "2147483648"], 2, "Invalid value for '--partition'"),
        (["topic", "create", "x", "--replicas", "32768"], 2, "Invalid value for '--replicas'"),
        (
            ["topic", "reassign", "x", "--yes", "--watch", "--throttle", "9" * 30],
            2,
            "is too large for a size",
        ),
        (["consume", "x", "--from", "9" * 30], 2, "--from takes"),
        (["group", "reset-offsets", "x", "--to-timestamp", "@" + "9" * 30], 2, "--to-timestamp takes"),
        (["profile", "add", "", "--bootstrap", "a:1"], 2, "A profile needs a name"),
    ],
)
def test_a_failure_is_one_sentence_on_stderr(
    words: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert sentence in output.err
    assert output.err.startswith("tidelog: ")
    assert output.err.count("\n") == 1


@pytest.mark.parametrize("words", [["--help"], ["topic", "--help"], ["broker", "--help"], ["consume", "-h"]])
def test_help_goes_to_stdout_and_is_no_failure(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    assert "Usage: tidelog" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["topic"], ["log"]])
def test_without_a_command_the_help_says_all(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    output = capsys.readouterr()
    assert "Usage: tidelog" in output.out
    assert output.err == ""


def test_help_shows_no_type_of_a_value_that_an_option_does_not_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words in (["--help"], ["sim", "--help"], ["log", "dump", "--help"]):
        main(words)
    assert "bool" not in capsys.readouterr().out


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    flag = capsys.readouterr().out
    assert main(["version"]) == 0
    assert capsys.readouterr().out == flag
    assert flag.startswith("tidelog ")


def test_an_interrupt_while_modules_are_loaded_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupting:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "tidelog.cli.app":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "tidelog.cli.app", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert main(["topic", "list"]) == 130


def test_a_setting_that_nobody_knows_cannot_be_taken_back() -> None:
    with pytest.raises(InvalidConfig, match="no-such-setting"):
        change_topic(None, "x", {}, ["no-such-setting"])  # type: ignore[arg-type]
    assert main(["config", "unset", "no-such-setting"]) == 1  # before it looks for a broker


def test_the_list_of_commands_has_the_broker(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    assert "Run a broker in the foreground" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        (["--config", "a.toml"], BrokerArguments(Path("a.toml"), ())),
        (
            ["--config=a.toml", "--set", "a=b=c", "--set=d=e"],
            BrokerArguments(Path("a.toml"), ("a=b=c", "d=e")),
        ),
        ([], None),
        (["--config"], None),
        (["--config="], None),
        (["--config", "--set"], None),
        (["--config", "a.toml", "--set"], None),
        (["--config", "a.toml", "--help"], None),
        (["--config", "a.toml", "extra"], None),
        (["--conf", "a.toml"], None),
    ],
)
def test_plain_broker_arguments_are_taken_and_the_rest_is_left_to_the_full_parser(
    words: list[str], arguments: BrokerArguments | None
) -> None:
    assert parse_plain(words) == arguments


@pytest.mark.slow
def test_a_broker_imports_neither_the_help_system_nor_a_client(tmp_path: Path) -> None:
    """They would cost a broker a third of a second and tens of megabytes."""
    (tmp_path / "broker.toml").write_text('"no.such.setting" = 1\n')
    script = (
        "import sys\n"
        "from tidelog.cli import main\n"
        "import tidelog.runtime.process\n"
        f"code = main(['broker', '--config', {str(tmp_path / 'broker.toml')!r}])\n"
        "heavy = {'typer', 'rich', 'click', 'pydantic', 'confluent_kafka'} & set(sys.modules)\n"
        "print(code, sorted(heavy))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "1 []\n", done.stderr
    assert "no.such.setting" in done.stderr


@pytest.mark.slow
def test_output_that_cannot_be_written() -> None:
    """As to a file on a full disk."""
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "tidelog", "version"]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr == "tidelog: Reading or writing failed: No space left on device.\n"


def test_streams_that_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["version"]) == 0
    assert not sys.stdin.isatty()


def test_a_file_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--detach", "--dir", "/dev/null/somewhere", "--no-page"]) == 1
    assert capsys.readouterr().err == "tidelog: /dev/null/somewhere: Not a directory.\n"
