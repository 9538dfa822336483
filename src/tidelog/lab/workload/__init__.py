"""Producers and consumers as processes of their own, whose histories say what became of every record."""

from tidelog.lab.workload.workload import Workload, WorkloadFailed

__all__ = ["Workload", "WorkloadFailed"]
