"""The process of a broker: start, run and stop.

Start: lock and open the data directory, join the quorum of controllers and the cluster, open the logs,
listen, write the pid file. Stop on SIGTERM or SIGINT: accept no new connections, finish pending requests,
close the logs cleanly. A second signal ends the process immediately, and the next start recovers as after a
crash.
"""

import asyncio
import contextlib
import gc
import importlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from tidelog.broker.housekeeping.housekeeping import Housekeeping
from tidelog.broker.node.node import Node
from tidelog.config import BrokerConfig, Listener, Raw
from tidelog.config.listener_rules import insecure_listeners, refuse_insecure_listeners
from tidelog.config.node_listeners import authenticates_nodes, refuse_unknown_nodes
from tidelog.errors import TidelogError
from tidelog.log.directory import DataDirectory
from tidelog.runtime import descriptors, logs
from tidelog.runtime.addresses import Addresses, advertised_addresses
from tidelog.runtime.assembly import Assembly
from tidelog.runtime.audit_log import audit_log
from tidelog.runtime.descriptors import Descriptors
from tidelog.runtime.lag import LagMeter
from tidelog.runtime.notify import READY, STOPPING, notify
from tidelog.runtime.partition_names import PartitionNames
from tidelog.runtime.peers.exchanges import load_exchanges
from tidelog.runtime.secret_files import read_cluster_secret
from tidelog.runtime.server import Server
from tidelog.runtime.services import give_way
from tidelog.runtime.surroundings import surroundings
from tidelog.runtime.tls.node import NodeTls
from tidelog.security.cluster_secret import ClusterSecret
from tidelog.services import Services, ignore

if TYPE_CHECKING:
    from tidelog.runtime.metrics import (
        MetricsServer,
    )  # imported only if metrics are served, because it is large

logger = logging.getLogger(__name__)

STOP_GRACE_S = 5.0
READY_POLL_S = 0.005
STARTING_S = 10.0  # between two lines of the log about a start that takes long
LEAVE_POLL_S = 0.05
LAST_WORDS_S = 0.03  # for an active controller that stops
LEAVE_TIMEOUT_S = 2.0  # for other brokers to take over the partitions of a stopping one
CLOSING_THREADS = 16  # each waits for the sync of one log
SWITCH_INTERVAL_S = 0.001
# A pass of the cycle collector blocks the event loop for about 0.2 ms per thousand objects, and several times
# as long on a busy machine. The first generation has 1,500 new objects, the second five times as many. The
# third is everything: it is collected after 50 million.
COLLECTOR_THRESHOLDS = (1_500, 4, 6_500)
PRIVATE_UMASK = 0o077  # Whatever the process writes is for its own account only.


def run_broker(values: Mapping[str, Raw], directory: Path) -> int:
    """Run until stopped; returns the exit code. ``directory`` is that of the config file."""
    config = BrokerConfig.parse(values)
    logs.set_up(config.logging_level, config.logging_format)
    try:
        refuse_insecure_listeners(config)
    except TidelogError as error:
        logger.error("the broker cannot start: %s", error.message)
        return 1
    for listener in insecure_listeners(config):
        logger.warning("every client that reaches %s can use the cluster: it has no authentication", listener)
    room = descriptors.claim(config)
    _tune_interpreter()
    os.umask(PRIVATE_UMASK)
    pid_file = directory / "broker.pid"
    process = BrokerProcess(config, directory, room)
    try:
        return uvloop.run(process.run(pid_file))
    except TidelogError as error:
        logger.error("the broker cannot start: %s", error.message)
        return 1
    finally:
        with contextlib.suppress(OSError):
            if pid_file.read_text().strip() == str(os.getpid()):
                pid_file.unlink()


def _tune_interpreter() -> None:
    """Exclude all objects that exist now from the cycle collector, because they are never freed. And let a
    computing thread yield to the event loop after one millisecond instead of five.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


class BrokerProcess:
    def __init__(self, config: BrokerConfig, directory: Path, room: Descriptors) -> None:
        self._config = config
        self._room = room
        self._path = directory / config.log_dir
        self._directory = directory

    async def run(self, pid_file: Path) -> int:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        _handle_signals(loop, stop)
        disk, services = surroundings(loop, self._path)
        opened_ms = services.now_ms()
        config = self._config
        directory = DataDirectory.open(
            disk,
            str(self._path),
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            now_ms=services.now_ms(),
            handles_max=self._room.logs,
            new_id=services.new_uuid,
        )
        # No other process has the directory now. A broker that waits for the controllers can be stopped, too.
        _write_pid(pid_file)
        # Bound and listening before registration, because the port must be known and other nodes must be able
        # to connect.
        tls = NodeTls(config, self._directory, loop)
        sockets = [_bind(listener, config) for listener in config.listeners]
        advertised = advertised_addresses(config, sockets)
        turned_away: list[str] = []
        assembly = Assembly(
            config, self._path, directory, disk, services, loop, Addresses.of(config, advertised),
            lambda reason: _turn_away(turned_away, reason, stop), self._room.connections, tls,
            self._directory, self._cluster_secret(), audit_log(config, self._directory),
        )  # fmt: skip
        node, broker, server = assembly.node, assembly.broker, assembly.server
        names = PartitionNames(lambda: node.metadata.image.topic_names)
        for handler in logging.getLogger().handlers:
            handler.addFilter(names)
        for listener, bound in zip(config.listeners, sockets, strict=True):
            await server.listen(bound, listener, tls.listener(listener))
        loop.add_signal_handler(signal.SIGHUP, _reload, tls, services)
        tls.watch(services)
        node.start()
        if not await _until_ready(node, loop, stop):
            assembly.stop()
            tls.close()
            services.close()
            directory.close()
            return _exit_code(config, turned_away)
        directory.join_cluster(node.metadata.image.cluster_id)
        if directory.checked_logs:
            logger.info(
                "recovered from an unclean stop: %s logs were checked in %s ms",
                directory.checked_logs, services.now_ms() - opened_ms,
            )  # fmt: skip
        directory.forget_strays()
        lag = LagMeter(loop, config.event_loop_sample_interval_ms / 1000)
        lag.start()
        # Before clients are served: a process that answers them is expected to have metrics.
        metrics = await self._serve_metrics(server, lag, node)
        server.serve_clients()
        services.compute(load_exchanges, ignore)
        housekeeping = Housekeeping(broker, directory, node.host.syncer, disk, give_way=give_way)
        housekeeping.start()
        logger.info(
            "broker %s of cluster %s listens on %s with %s partitions",
            config.node_id, node.metadata.image.cluster_id, ", ".join(map(str, advertised)),
            len(node.partitions),
        )  # fmt: skip
        notify(READY)
        await stop.wait()
        logger.info("stopping")
        notify(STOPPING)
        _end_at_the_next_signal(loop)
        await _leave(node)
        broker.coordinators.close()
        housekeeping.stop()
        lag.stop()
        if metrics is not None:
            metrics.close()
        await server.stop(STOP_GRACE_S)
        assembly.stop()
        tls.close()
        services.close()
        directory.close(housekeeping.high_watermarks(), run_all=_run_in_threads)
        logger.info("stopped")
        return _exit_code(config, turned_away)

    def _cluster_secret(self) -> ClusterSecret | None:
        config = self._config
        refuse_unknown_nodes(config)
        if config.cluster_secret_file is not None:
            return read_cluster_secret(self._directory / config.cluster_secret_file)
        for listener in config.listeners:
            if listener.protocol.uses_sasl and listener.name in config.peer_listener_names:
                raise TidelogError(f"{listener}: nodes use this listener, so cluster.secret.file is needed")
        if not authenticates_nodes(config):
            logger.warning(
                "any client that reaches this broker can act as a node of its cluster: set "
                "cluster.secret.file, the same on all nodes"
            )
        return None

    async def _serve_metrics(self, server: Server, lag: LagMeter, node: Node) -> "MetricsServer | None":
        if not self._config.http_port:
            return None
        # The import takes 20 ms, and brokers without metrics do without it.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, importlib.import_module, "tidelog.runtime.metrics")
        from tidelog.runtime.metrics import BrokerCollector, MetricsServer

        metrics = MetricsServer(BrokerCollector(server, lag, node))
        await metrics.listen(self._config.listeners[0].host, self._config.http_port)
        return metrics


def _handle_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # A closed terminal or a tool that rotates logs must not end a broker.
    loop.add_signal_handler(signal.SIGHUP, _log_hangup)


def _end_at_the_next_signal(loop: asyncio.AbstractEventLoop) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _log_hangup() -> None:
    logger.info("SIGHUP is ignored; SIGTERM stops the broker")


def _reload(tls: NodeTls, services: Services) -> None:
    """SIGHUP: read the certificates again."""
    if tls.certificates is None:
        _log_hangup()
    else:
        logger.info("SIGHUP: looking for changed certificates")
        tls.reload(services)


def _turn_away(reasons: list[str], reason: str, stop: asyncio.Event) -> None:
    reasons.append(reason)
    stop.set()


def _exit_code(config: BrokerConfig, turned_away: Sequence[str]) -> int:
    for reason in turned_away[:1]:
        logger.error("broker %s stopped, because the cluster rejected it: %s", config.node_id, reason)
    return 1 if turned_away else 0


def _run_in_threads(jobs: Sequence[Callable[[], None]]) -> None:
    with ThreadPoolExecutor(CLOSING_THREADS) as pool:
        for job in jobs:
            pool.submit(job)


def _write_pid(path: Path) -> None:
    path.write_text(f"{os.getpid()}\n")


async def _leave(node: Node) -> None:
    """Let other brokers take over before clients notice the stop. The time is limited, because all brokers
    may stop at once.
    """
    if not node.has_successors:
        return
    left = asyncio.Event()
    node.membership.leave(left.set)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LEAVE_TIMEOUT_S):
            while not left.is_set() and node.has_deciders:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(left.wait(), LEAVE_POLL_S)
    if left.is_set() and node.controller.active:
        # Wait until the others know that the last decision of this controller is committed. Otherwise they
        # would wait for this broker until there is another active controller.
        await asyncio.sleep(LAST_WORDS_S)


def _waits_for(node: Node) -> str:
    if node.metadata.leader < 0:
        return (
            "there is no active controller; a majority of the controllers has to run, each with its own data"
        )
    return "the active controller has not admitted this broker yet"


async def _until_ready(node: Node, loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> bool:
    """Wait until the broker is unfenced and its logs are open. Returns False if it is stopped before."""
    told_at = loop.time()
    while not node.ready:
        if loop.time() - told_at >= STARTING_S:
            told_at = loop.time()
            logger.warning("still starting: %s", _waits_for(node))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), READY_POLL_S)
            return False
    opened = loop.create_future()
    node.partitions.when_open(lambda: opened.set_result(None))
    await opened
    return True


def _bind(listener: Listener, config: BrokerConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((listener.host, listener.port))
    except OSError as error:
        bound.close()
        raise TidelogError(f"cannot listen on {listener}: {error.strerror}") from None
    return bound
