"""The reference of the command line, written from the commands themselves.

``python -m tidelog.cli.document`` prints it; docs/cli.md is that output, and a test compares the two.
"""

import inspect
import sys
from collections.abc import Iterator
from typing import Any

from tidelog.cli.app import command_line

_INTRODUCTION = """\
# Command line

<!-- Written by `python -m tidelog.cli.document`: change the commands in src/tidelog/cli, not this page. -->

To get started, open two terminals. In the first:

```console
$ tidelog up
```

It prints a line that begins with `ready` when clients can write, and stops cleanly with Ctrl-C. In the
second:

```console
$ tidelog topic create greetings --partitions 3
$ echo hello | tidelog produce greetings
$ tidelog consume greetings
```

For all commands:

- Commands that talk to a cluster use `--bootstrap` (or the variable `TIDELOG_BOOTSTRAP`). Without
  it, they ask the cluster of the profile in use (`tidelog profile`); without one, that of `tidelog up` in
  `.tidelog/`, and no other one, also when it is down; and where there is none, ports 9092, 9093 and 9094 of
  127.0.0.1.
- `--yes` agrees to what a command would ask, everywhere. Commands that show a plan first make the change with
  it; `--execute` is its older name there.
- Times and sizes may have units: `--timeout 90s`, `--set retention.ms=24h`, `--set segment.bytes=512MB`.
- `tidelog --install-completion` completes commands and options in bash, zsh and fish.
- Tables are for people; `--json` prints the same for scripts.
- A command that fails prints the reason on standard error. The exit code is 0 for success, 1 for
  failure, 2 for an invalid command line, 3 if `pipeline audit` or `pipeline verify` found a
  problem, and 130 after Ctrl-C. `tidelog cluster health` exits with 3 if the cluster is degraded, and
  with 4 if it is unavailable.
- When brokers are down, begin with `tidelog cluster status`: it says what is wrong, what still works and what
  to type next. Its words: a broker is *up*; *down* if it accepts no connections; *not answering* if it
  accepts them and says nothing; *fenced* if the controllers do not count it; *drained* if it leads nothing on
  request. A partition is *offline* without a leader, *below minimum* if it refuses acks=all,
  *under-replicated* if a replica is not in sync.
- Settings keep Kafka's names; [configuration.md](configuration.md) lists them.

`tidelog up --dir DIR` creates these files, and scripts can rely on them:

| path | what it is |
|---|---|
| `DIR/broker-N/broker.toml` | settings of broker N = 1, 2, …; change them and restart |
| `DIR/broker-N/broker.log` | log output of the broker |
| `DIR/broker-N/broker.pid` | its process id, while it runs |
| `DIR/broker-N/data/` | its records, in Kafka's file layout |

Broker N listens on PORT + N − 1. Restart a killed broker with
`tidelog broker --config DIR/broker-N/broker.toml`; `tidelog up` keeps running, and stops it with the
others.
"""


def document() -> str:
    """The whole page."""
    root = command_line()
    return "\n".join([_INTRODUCTION, *_sections(root, "tidelog")])


def _sections(command: Any, path: str) -> Iterator[str]:
    context = command.make_context(path, [], resilient_parsing=True)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        if hasattr(child, "commands"):
            if child.invoke_without_command and child.params:
                yield _section(child, f"{path} {name}")
            yield from _sections(child, f"{path} {name}")
        else:
            yield _section(child, f"{path} {name}")


def _section(command: Any, path: str) -> str:
    parameters = [parameter for parameter in command.params if parameter.name != "help"]
    arguments = "".join(
        f" {p.metavar or p.name.upper()}" for p in parameters if p.param_type_name == "argument"
    )
    lines = [f"## {path}{arguments}", ""]
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        text, example = " ".join(paragraph.split("\n")), "Example: "
        lines += (
            ["```console", f"$ {text.removeprefix(example)}", "```", ""]
            if text.startswith(example)
            else [text, ""]
        )
    rows = [_row(parameter) for parameter in parameters if parameter.param_type_name == "option"]
    if rows:
        lines += ["| option | meaning |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(option: Any) -> str:
    names = ", ".join(f"`{name}`" for name in option.opts)
    if option.is_flag:
        shown = names
    else:
        shown = names[:-1] + f" {_value(option)}`"
    meaning = option.help or ""
    if option.required:
        meaning += " Required."
    elif not option.is_flag and (default := _default(option)):
        meaning += f" Default: {default}."
    return f"| {shown} | {meaning} |"


def _value(option: Any) -> str:
    if option.metavar:
        return str(option.metavar)
    choices = getattr(option.type_descriptor, "choices", None)
    # A bare | would end the table's cell.
    return "\\|".join(str(choice.value) for choice in choices) if choices else "TEXT"


def _default(option: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    if option.default is None or callable(option.default) or option.default in ([], ()):
        return ""
    return f"`{getattr(option.default, 'value', option.default)}`"


if __name__ == "__main__":
    sys.stdout.write(document())
