"""How much faster than real time five simulated brokers run, under load and faults, on one core.

CPU time of this process, so that what else runs on the machine counts as little as it can.
"""

import logging
import time

from bench.lineup import Options
from bench.report import Check, Column, Report
from tidelog.sim.run import CONTROLLERS, MODES, run

BROKERS = 5
SEEDS = 12
TARGET = 50.0
COLUMNS = (
    Column("seeds", "seeds", ",.0f"),
    Column("simulated", "simulated s", ",.0f"),
    Column("cpu", "CPU s", ",.1f"),
    Column("times", "× real time", ",.1f"),
    Column("messages", "messages/s simulated", ",.0f"),
    Column("acknowledged", "acknowledged/s simulated", ",.0f"),
)


def run_all(options: Options) -> list[Report]:
    """``--seconds`` and the servers mean nothing here; each seed is run ``--rounds`` times, and the quickest
    counts: the others were disturbed.
    """
    logging.disable(logging.CRITICAL)  # Thousands of expected failures.
    report = Report(f"{BROKERS} simulated brokers under load and faults", COLUMNS, ("mode",))
    for mode in MODES:
        if mode != CONTROLLERS:
            report.rows.append({"mode": mode} | _measure(mode, options.rounds))
    logging.disable(logging.NOTSET)
    report.checks = [Check("isr: faster than real time", report.value("times", mode="isr"), TARGET)]
    return [report]


def _measure(mode: str, rounds: int) -> dict[str, float]:
    simulated = cpu = messages = acknowledged = 0.0
    for seed in range(SEEDS):
        costs = []
        for _ in range(rounds):
            began = time.process_time()
            result = run(mode, seed, size=BROKERS)
            costs.append(time.process_time() - began)
        cpu += min(costs)
        simulated += result.simulated_ms / 1000
        messages += result.messages
        acknowledged += result.acknowledged
    return {
        "seeds": SEEDS,
        "simulated": simulated,
        "cpu": cpu,
        "times": simulated / cpu,
        "messages": messages / simulated,
        "acknowledged": acknowledged / simulated,
    }
