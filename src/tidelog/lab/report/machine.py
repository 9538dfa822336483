"""What a report says about the machine and the programs."""

import contextlib
import os
import platform
import shutil
from importlib import metadata
from pathlib import Path

from tidelog.lab.results import Machine

PROGRAMS = ("tidelog", "confluent-kafka", "pyarrow")


def machine(directory: Path | None = None) -> Machine:
    """``directory``: where the brokers' data is."""
    return Machine(
        cpu=_cpu(),
        cores=_cores(),
        memory_gb=round(_memory_bytes() / 1e9, 1),
        system=f"{platform.system()} {platform.release()}",
        disk=_disk(directory or Path.cwd()),
        load_average=_load_average(),
    )


def versions() -> dict[str, str]:
    """Of what is installed."""
    found = {"python": platform.python_version()}
    for name in PROGRAMS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    with contextlib.suppress(ImportError):
        import confluent_kafka

        found["librdkafka"] = confluent_kafka.libversion()[0]
    return found


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    """That this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 0


def _load_average() -> float:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return 0.0


def _disk(directory: Path) -> str:
    """Kind of file system and free space."""
    place = next((each for each in (directory, *directory.parents) if each.exists()), Path("/"))
    free = shutil.disk_usage(place).free / 1e9
    kind = _file_system(place.resolve())
    return f"{kind}, {free:,.0f} GB free" if kind else f"{free:,.0f} GB free"


def _file_system(place: Path) -> str:
    best, kind = "", ""
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text().splitlines():
            _, at, found, *_ = line.split()
            if place.is_relative_to(at) and len(at) > len(best):
                best, kind = at, found
    return kind
