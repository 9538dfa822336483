"""A report as text and as Markdown."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tidelog.cli.plan.costing import HOW, Calibration, shown
from tidelog.cli.plan.report import Report
from tidelog.cli.tables import count, print_table
from tidelog.planner.faults import brokers_named, listed

_QUESTIONS = (
    ("may_lose_when", "An acknowledged record may be lost only if"),
    (
        "metadata_lost_when",
        "The metadata of the cluster is lost, and it cannot start without a copy of one of these disks, if",
    ),
    ("writes_stop_when", "Writes stop if"),
    ("writes_wait_when", "Writes wait if"),
    ("reads_stop_when", "Reads stop if"),
)
_COLUMNS = {
    "settings": "settings",
    "writes": "dead, writes go on",
    "reads": "dead, reads go on",
    "data": "lost disks",
    "power": "power of all",
    "waits": "an acknowledgement waits for",
}
CANDIDATES_SHOWN = 4


def lines_of(report: Report) -> list[str]:
    """The text of a report in Markdown, without its tables."""
    if "from" in report:
        return [*_translation(report)]
    return [*_advice(report)]


def _advice(report: Report) -> Iterable[str]:
    advice = report["answer"]
    if advice is None:
        yield "## No settings satisfy these needs"
        yield ""
        yield from _rejected(report)
        if report["give_up"]:
            yield ""
            yield "What could be given up, the smallest first (each line alone is enough):"
            yield ""
            yield from (f"- {each}" for each in report["give_up"])
        return
    yield f"## Use {advice['settings_in_words']}"
    yield ""
    yield from _promise(advice)
    yield ""
    yield f"    {report['command']}"
    yield ""
    yield from _producers(advice)
    if report["rejected"]:
        yield ""
        yield "## Why not another mode"
        yield ""
        yield from _rejected(report)
    yield from _in_kafka(report)


def _translation(report: Report) -> Iterable[str]:
    today = report["today"]
    yield f"## {report['from']}: this is {today['settings_in_words']}"
    yield ""
    yield from _promise(today)
    yield ""
    yield f"    {report['command']}"
    for title, key in (("Notes", "notes"), ("Settings that are not translated", "not_translated")):
        if report[key]:
            yield ""
            yield f"{title}:"
            yield ""
            yield from (f"- {each}" for each in report[key])
    if report["isr_equivalent"]:
        yield from _equivalent(report)
    yield from _in_kafka(report)


def _equivalent(report: Report) -> Iterable[str]:
    other = report["isr_equivalent"]
    yield ""
    yield f"## The same with in-sync replicas: {other['settings_in_words']}"
    yield ""
    yield f"    {report['isr_command']}"
    yield ""
    yield from _producers(other)
    if report["partitions"] >= report["brokers"]:
        each = report["partitions"] // report["brokers"]
        yield ""
        yield f"{report['partitions']} partitions, {each} led by each broker if leaders are spread evenly."
    for title, key in (("Same", "same"), ("Different", "different")):
        yield ""
        yield f"{title}:"
        yield ""
        yield from (f"- {sentence}" for sentence in report[key])
    yield ""
    yield from _promise(other)


def _promise(advice: Report) -> Iterable[str]:
    found = advice["tolerates"]
    power = "nothing is lost" if found["power_failure_of_all"] else "the newest records may be lost"
    writes, reads = found["dead_brokers_for_writes"], found["dead_brokers_for_reads"]
    # Below none: they stop without any fault.
    stopped = "" if writes >= 0 else "No write with acks=all is acknowledged, even without a fault. "
    counted = [f"{count(writes, 'dead broker')} for writes", f"{reads} for reads"]
    dead = ", ".join(counted if not stopped else [f"{count(reads, 'dead broker')} for reads"])
    disks = count(found["lost_disks"], "lost disk")
    copies = advice["copies_when_acknowledged"]
    holders = _holders(copies, advice["replicas"])
    yield (
        f"{holders} {'has' if copies == 1 else 'have'} a record before it is acknowledged. {stopped}"
        f"Tolerated: {dead}, {disks}. In a power failure of all brokers, {power}."
    )
    if advice["producers_move"]:
        yield ""
        yield (
            "Producers use other partitions while a primary is down. What follows is about one partition, "
            f"the one with its primary on broker {advice['leader']}."
        )
    for key, words in _QUESTIONS:
        if advice[key]:
            yield ""
            yield f"{words}:"
            yield ""
            yield from (f"- {sentence}" for sentence in advice[key])
    if advice["racks"]:
        yield ""
        yield from _racks(advice["racks"])


def _holders(copies: int, replicas: int) -> str:
    if not copies:
        return f"None of {count(replicas, 'replica')}"
    if copies == replicas:
        return {1: "The only replica", 2: "Both replicas"}.get(replicas, f"All {replicas} replicas")
    return f"At least {copies} of {replicas} replicas"


def _racks(racks: Report) -> Iterable[str]:
    yield (
        f"Racks: {count(racks['tolerated'], 'rack')} without power tolerated, for writes and for data, "
        "however late the other replicas are."
    )
    for key, words in _QUESTIONS:
        if racks.get(key):
            yield ""
            yield f"{words}:"
            yield ""
            yield from (f"- {sentence}" for sentence in racks[key])


def _producers(advice: Report) -> Iterable[str]:
    settings = [f"{name}={value}" for name, value in advice["producer_settings"].items()]
    yield f"Producers: {listed(settings)}. Order: {advice['order']}."


def _rejected(report: Report) -> Iterable[str]:
    yield from (f"- {each['family']}: {each['reason']}" for each in report["rejected"])


def _in_kafka(report: Report) -> Iterable[str]:
    if not report["kafka"] or report.get("from") == "kafka":
        return
    yield ""
    yield "## In Kafka"
    yield ""
    yield "    " + " ".join(f"{name}={value}" for name, value in report["kafka"]["settings"].items())
    for each in report["kafka"]["differences"]:
        yield ""
        yield f"- {each}"


# --- tables -------------------------------------------------------------------------------------------------


def tables_of(report: Report) -> list[tuple[str, dict[str, str], list[dict[str, Any]]]]:
    """(title, columns, rows)."""
    found = []
    if report.get("candidates"):
        rows = report["candidates"][:CANDIDATES_SHOWN]
        left = len(report["candidates"]) - len(rows)
        more = f" ({left} more with --json)" if left else ""
        found.append((f"Settings that satisfy the needs, the cheapest first{more}", _COLUMNS, rows))
    if report.get("proof"):
        columns = {
            "fault": "fault",
            "target": "on",
            "settings": "settings",
            "verdict": "verdict",
            "acknowledged": "acknowledged",
            "lost": "lost",
            "writes_stood_still_s": "s without writes",
        }
        found.append(("Proof: observed in the lab", columns, report["proof"]))
    if report["years"]:
        columns = {
            "settings": "settings",
            "loss": "loss per year",
            "writes": "min/year without writes",
            "reads": "without reads",
        }
        found.append(("In a year", columns, [_year(each) for each in report["years"]]))
    if report.get("costs"):
        found.append(cost_table(report["costs"]))
    return found


def cost_table(costs: Report) -> tuple[str, dict[str, str], list[dict[str, Any]]]:
    columns = {
        "settings": "settings",
        "p50_ms": "lone write, p50 ms",
        "p99_ms": "p99 ms",
        "mb_per_s": "MB/s, all on this machine",
        "mb_per_s_apart": f"MB/s, {costs['brokers']} such machines",
    }
    rows = [
        {"settings": row["settings"]} | {key: shown(row[key]) for key in columns if key != "settings"}
        for row in costs["rows"]
    ]
    return f"Predicted from the calibration of {costs['measured'][:16].replace('T', ' ')}", columns, rows


COSTS_NOTE = (
    "1 KB records; the range is that of the calibration's rounds. Between machines the network's round trip "
    "comes on top, twice with followers."
)


def _year(row: Report) -> dict[str, Any]:
    return {
        "settings": row["settings"],
        "loss": _chance(row["loss_probability_per_year"]),
        "writes": f"{row['minutes_without_writes_per_year']:.1f}",
        "reads": f"{row['minutes_without_reads_per_year']:.1f}",
    }


def _chance(probability: float) -> str:
    if probability >= 0.001:
        return f"{probability:.1%}"
    return f"1 in {_rounded(1 / probability)}" if probability > 0 else "never"


_LARGE = (("trillion", 1e12), ("billion", 1e9), ("million", 1e6))


def _rounded(number: float) -> str:
    """Two digits are more than the rates are worth."""
    number = float(f"{number:.1e}")
    name, unit = next(((name, unit) for name, unit in _LARGE if number >= unit), ("", 1.0))
    digits = 1 if number / unit < 10 and name else 0
    return f"{number / unit:,.{digits}f} {name}".strip()


def rates_line(report: Report) -> str:
    return "Rates: " + "; ".join(
        f"{each['rate']} {each['value']:g} ({each['source']})" for each in report["rates"]
    )


def print_report(report: Report) -> None:
    for line in lines_of(report):
        print(line.removeprefix("## "))
    _print_tables(report)


def _print_tables(report: Report) -> None:
    for title, columns, rows in tables_of(report):
        print(f"\n{title}:\n")
        print_table(rows, columns)
        if title.startswith("In a year"):
            print("\nThe loss is an upper bound. --json shows the rates and their sources.")
    if "costs" in report and report["years"]:
        print(f"\n{COSTS_NOTE if report['costs'] else HOW}")


def print_calibration(found: Calibration, costs: Report | None, where: Path) -> None:
    rounds = found.rounds
    figures = {
        "round trip of a lone write, ms": [each.round_trip_ms[50] for each in rounds],
        "a follower more, not waited for, ms": [each.beside_ms[50] for each in rounds],
        "and waited for, ms": [each.follower_ms[50] for each in rounds],
        "a sync more, ms": [each.sync_ms[50] for each in rounds],
        "client CPU, s/GB": [1000 * each.client_cpu_s_per_mb for each in rounds],
        "leader CPU, s/GB": [1000 * each.leader_cpu_s_per_mb for each in rounds],
        "CPU for each follower, s/GB": [1000 * each.follower_cpu_s_per_mb for each in rounds],
        "cores that they got": [each.busy_cores for each in rounds],
        "a sync more, s/GB": [1000 * each.sync_s_per_mb for each in rounds],
        "disk, MB/s": [1 / each.disk_s_per_mb for each in rounds],
    }
    print_table(
        [
            {"what": name, "rounds": "  ".join(f"{value:.2f}" for value in found)}
            for name, found in figures.items()
        ],
        {"what": f"measured on {found.cores} cores", "rounds": "each round"},
    )
    if costs:
        title, columns, rows = cost_table(costs)
        print(f"\n{title}:\n")
        print_table(rows, columns)
        print(f"\n{COSTS_NOTE}")
    print(f"Kept in {where}; `tidelog plan` uses it from now on.")


def plots(files: Mapping[Path, tuple[str, str]]) -> str:
    """Images that lie beside the report."""
    parts = [f"\n{title}:\n\n![{title}]({path.name})\n" for path, (title, _) in files.items()]
    return "".join(["\n## Plots of the proof\n", *parts]) if parts else ""


def markdown(report: Report, title: str) -> str:
    return _with_tables([f"# {title}", "", *lines_of(report)], report)


def _with_tables(text: list[str], report: Report) -> str:
    for heading, columns, rows in tables_of(report):
        text += ["", f"## {heading}", "", "| " + " | ".join(columns.values()) + " |"]
        text.append("|" + "---|" * len(columns))
        text += ["| " + " | ".join(_cell(row[key]) for key in columns) + " |" for row in rows]
    if report["years"]:
        text += ["", "The loss is an upper bound.", "", rates_line(report) + "."]
    if report.get("costs"):
        text += ["", COSTS_NOTE]
    return "\n".join(text) + "\n"


def _cell(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


# --- a topic that exists ------------------------------------------------------------------------------------


def _topic_lines(result: Report) -> Iterable[str]:
    promise = result["promise"]
    yield f"## Topic {result['topic']}: {promise['settings_in_words']}"
    yield ""
    yield f"As partition {result['partition']} has it; no other partition promises less."
    yield ""
    yield from _promise(promise)
    yield ""
    yield from _producers(promise)
    yield ""
    yield "## Now"
    yield ""
    if result["away_now"]:
        yield f"- Down: {brokers_named(result['away_now'])}."
    if not result["troubled_now"]:
        yield "- All partitions have enough replicas for writes."
    for row in result["troubled_now"]:
        state = "writes have stopped" if row["writes"] != "go on" else "below its minimum of replicas"
        yield f"- Partition {row['partition']}: {state}."
    yield f"- The worst single broker: {result['worst_single']}."
    if result["worst_pair"]:
        yield f"- The worst pair: {result['worst_pair']}."


def print_topic(result: Report) -> None:
    for line in _topic_lines(result):
        print(line.removeprefix("## "))
    _print_tables(result)


def topic_markdown(result: Report) -> str:
    return _with_tables([f"# Plan: topic {result['topic']}", "", *_topic_lines(result)], result)
