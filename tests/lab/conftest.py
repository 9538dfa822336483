"""Clusters that faults are made on, and what clients see of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.lab.experiment.model import ClusterSpec
from tidelog.lab.faults.cluster import LabCluster, Needs

MakeCluster = Callable[..., LabCluster]


@pytest.fixture(scope="module")
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeCluster]:
    """A running cluster with the hooks for these faults; ended with the module."""
    made: list[LabCluster] = []

    def make(
        *faults: str, brokers: int = 3, namespaces: bool = False, start: bool = True, **settings: object
    ) -> LabCluster:
        directory: Path = tmp_path_factory.mktemp("lab")
        needs = Needs.of_faults(faults, namespaces)
        cluster = LabCluster(directory, ClusterSpec(brokers=brokers, settings=settings), needs)
        made.append(cluster)
        if start:
            cluster.start()
        return cluster

    yield make
    for cluster in made:
        cluster.close()
