"""Opens the metadata of a node from its files: newest snapshot, log after it, voters, and this node's vote.

================================= ======================================================================
found                             action
================================= ======================================================================
no snapshot, a log from offset 0  the log is replayed
a snapshot, and a log after it    the log is replayed from the end of the snapshot
a snapshot above the log end      the log is dropped: the node crashed after it received the snapshot
offset, or of another history     from the leader and before it restarted the log there
a damaged snapshot                the one before it is used, and the log after that
a log that begins too late        the node refuses to start, because part of the metadata is missing
a log that lost synced records    the voter is treated as one with another disk: it does not vote until it
                                  is readmitted. A single voter continues with the records it has
================================= ======================================================================
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from tidelog.broker.metadata.quorum import MetadataPorts, MetadataQuorum
from tidelog.broker.metadata.snapshots import Applied, MetadataSnapshots, SnapshotPorts
from tidelog.broker.metadata.voters import MetadataVoters
from tidelog.config import BrokerConfig
from tidelog.controller.image import ClusterImage
from tidelog.controller.snapshot_file import Contents
from tidelog.controller.snapshot_store import SnapshotStore
from tidelog.errors import StorageError
from tidelog.log.log import Log
from tidelog.log.storage import Storage
from tidelog.protocol.batch import iterate
from tidelog.replication.attachments.snapshots import ReplicaSnapshots
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.ballot_file import BallotFile
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.host import Host
from tidelog.replication.limits import Limits
from tidelog.replication.messages import PartitionKey
from tidelog.replication.modes import METADATA
from tidelog.replication.replica import Replica
from tidelog.replication.voters import Voter, VoterHistory, VoterSet, decode_set, sets_in
from tidelog.replication.votes import Timing
from tidelog.services import Services
from tidelog.types import METADATA_TOPIC_ID, NO_EPOCH

logger = logging.getLogger(__name__)

METADATA_KEY: PartitionKey = (METADATA_TOPIC_ID, 0)
READ_AT_ONCE_BYTES = 1 << 20
FOUNDING_MS = 3000

UNHEARD = MetadataPorts()
"""Ignores all notifications."""


class MetadataSettings(NamedTuple):
    me: Voter  # this node, with the address at which the others reach it
    first_voters: VoterSet  # used while the log contains no voter set
    timing: Timing = Timing(founding_ms=FOUNDING_MS)
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000

    @classmethod
    def of(cls, config: BrokerConfig, me: Voter) -> "MetadataSettings":
        """``me`` is a separate parameter because its port is known only after binding."""
        voters = [Voter(each.node_id, None, each.host, each.port) for each in config.controller_quorum_voters]
        silence_ms = config.controller_quorum_fetch_timeout_ms
        timing = Timing(
            silence_ms=silence_ms,
            majority_ms=silence_ms * 3 // 2,
            trust_ms=silence_ms * 6 // 10,
            # Votes that arrive after their round do not count, so distant voters need longer rounds.
            round_ms=max(Timing().round_ms, silence_ms * 3 // 10),
            founding_ms=FOUNDING_MS,
        )
        return cls(
            me,
            VoterSet(voters or [msgspec.structs.replace(me, directory=None)]),
            timing,
            config.metadata_log_max_record_bytes_between_snapshots,
            config.metadata_log_max_snapshot_interval_ms,
        )


def open_metadata(
    storage: Storage,
    log: Log,
    settings: MetadataSettings,
    services: Services,
    host: Host,
    chance: Callable[[], float],
    ports: MetadataPorts = UNHEARD,
) -> MetadataQuorum:
    """Raises StorageError if the files do not contain all of the metadata."""
    try:
        store = SnapshotStore(storage, log.directory)
    except OSError as error:
        raise StorageError(f"cannot read the snapshots in {log.directory}: {error}") from error
    contents = store.load_newest()
    base_epoch = _join(log, contents, store)
    _sync(log, services.now_ms())
    history = _voters(log, contents, settings.first_voters)
    ballots = BallotFile(storage, log.directory, services)
    ballot, directory = ballots.open(services.new_uuid)
    if log.damage:
        if history.latest.ids != {settings.me.voter_id}:
            directory = ballots.forget_who_voted(services.new_uuid)
        logger.error("the metadata log lost records that this node had acknowledged: %s", log.damage)
        log.damage_is_known()
    me = msgspec.structs.replace(settings.me, directory=directory)
    election = Election(
        me.voter_id, history.latest, ballot, settings.timing, services.uptime_ms(), chance(), directory
    )
    applied_offset = contents.snapshot.end_offset if contents is not None else log.start_offset
    replica = Replica(
        me.voter_id,
        log,
        METADATA.policy,
        Limits(durable=True),
        applied_offset,
        epoch=ballot.epoch,
        replicas=tuple(sorted(history.latest.ids)),
        base_epoch=base_epoch,
        open_to_observers=True,
    )
    driver = ReplicaDriver(METADATA_KEY, log, replica, services, host, ports.before_cut)
    driver.adopt(METADATA)
    voter = Elected(driver, election, ballots)
    arriving = ReplicaSnapshots(
        METADATA_KEY, me.voter_id, store, services, lambda *what: quorum.snapshots.received(*what)
    )
    voters = MetadataVoters(driver, election, history, me, services, ports.on_voters)
    for attachment in (voter, arriving, voters):
        driver.attach(attachment)

    def make_snapshots(owner: SnapshotPorts) -> MetadataSnapshots:
        between, interval_ms = settings.snapshot_bytes, settings.snapshot_interval_ms
        return MetadataSnapshots(driver, store, voters, services, between, interval_ms, owner)

    applied = Applied(ClusterImage() if contents is None else contents.image, applied_offset)
    quorum = MetadataQuorum(driver, election, services, voters, make_snapshots, applied, ports)
    driver.observer = quorum
    host.add(driver)
    host.voting.add(driver)
    return quorum


def _join(log: Log, contents: Contents | None, store: SnapshotStore) -> int:
    """Make the log continue the snapshot. Returns the epoch of the last record before the log."""
    if contents is None:
        if log.start_offset > 0:
            raise _torn(log, "there is no whole snapshot")
        return NO_EPOCH
    end_offset, epoch = contents.snapshot
    if end_offset < log.start_offset:
        raise _torn(log, f"the newest whole snapshot ends at {end_offset}")
    known = end_offset == log.start_offset or log.epochs.epoch_at(end_offset - 1) == epoch
    if end_offset > log.end_offset or not known:
        logger.warning("the metadata log is dropped: the snapshot that ends at %s is newer", end_offset)
        log.restart_at(end_offset)
        return epoch
    if log.start_offset == 0:
        return NO_EPOCH
    base = store.ending_at(log.start_offset)
    if base is None:
        log.advance_start(end_offset)
        return epoch
    return base.epoch


def _torn(log: Log, what: str) -> StorageError:
    return StorageError(
        f"the metadata log in {log.directory} begins at offset {log.start_offset}, and {what}: the records "
        "before it are missing. Restore the snapshot (*.checkpoint) from a copy. Or, if other controllers of "
        f"the cluster are running, move {log.directory} away and restart: this node then copies it from them"
    )


def _sync(log: Log, now_ms: int) -> None:
    """Sync the log: its records may be only in the page cache, and a voter counts only synced records."""
    ticket = log.begin_sync()
    ticket.run()
    log.finish_sync(ticket, now_ms)


def _voters(log: Log, contents: Contents | None, first: VoterSet) -> VoterHistory:
    history, offset = VoterHistory(first), log.start_offset
    if contents is not None:
        offset = contents.snapshot.end_offset
        if contents.voters:
            history = VoterHistory(decode_set(contents.voters))
    while offset < log.end_offset:
        data = log.read(offset, READ_AT_ONCE_BYTES, log.end_offset, at_least_one_batch=True).read()
        for at, voters in sets_in(memoryview(data)):
            history.appended(at, voters)
        offset = max(header.next_offset for _, header in iterate(data))
    return history
