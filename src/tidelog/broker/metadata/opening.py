"""The metadata of a node, from its files: newest snapshot, log behind it, who votes, how this node voted.

================================= ======================================================================
found                             done
================================= ======================================================================
no snapshot, a log from the start the log tells everything
a snapshot, and a log behind it   the log is replayed from the snapshot's end
a snapshot beyond the log's end,  the log is dropped: a crash came between the snapshot's arrival from
or of another history             the leader and the log's new beginning
a damaged snapshot                the one before is taken, and the log behind it
a log that begins too late        this node says so and does not start: it would make up a cluster
a log that lost synced records    this voter counts as one with another disk: it does not vote before it
                                  was readmitted. One that is alone goes on with what is left
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
from tidelog.replication.attachments.voter import Elected
from tidelog.replication.ballot_file import BallotFile
from tidelog.replication.driver import ReplicaDriver
from tidelog.replication.election import Election
from tidelog.replication.host import Host
from tidelog.replication.messages import PartitionKey
from tidelog.replication.modes import METADATA
from tidelog.replication.replica import Limits, Replica
from tidelog.replication.snapshots import ReplicaSnapshots
from tidelog.replication.voters import Voter, VoterHistory, VoterSet, decode_set, sets_in
from tidelog.replication.votes import Timing
from tidelog.services import Services
from tidelog.types import METADATA_TOPIC_ID, NO_EPOCH

logger = logging.getLogger(__name__)

METADATA_KEY: PartitionKey = (METADATA_TOPIC_ID, 0)
READ_AT_ONCE_BYTES = 1 << 20
FOUNDING_MS = 3000

UNHEARD = MetadataPorts()
"""Nobody listens."""


class MetadataSettings(NamedTuple):
    me: Voter  # this node, and the address under which the others reach it
    first_voters: VoterSet  # while the log says nothing
    timing: Timing = Timing(founding_ms=FOUNDING_MS)
    snapshot_bytes: int = 20 << 20
    snapshot_interval_ms: int = 3_600_000

    @classmethod
    def of(cls, config: BrokerConfig, me: Voter) -> "MetadataSettings":
        """``me``: the port is known only when it is bound."""
        voters = [Voter(each.node_id, None, each.host, each.port) for each in config.controller_quorum_voters]
        silence_ms = config.controller_quorum_fetch_timeout_ms
        timing = Timing(
            silence_ms=silence_ms,
            majority_ms=silence_ms * 3 // 2,
            trust_ms=silence_ms * 6 // 10,
            # Votes that come after their round count no more: who is far away is given longer ones.
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
    """Raises StorageError when the files do not tell what the cluster is."""
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
        logger.error("the metadata log lost decisions that this node had acknowledged: %s", log.damage)
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
    host.voting.add(driver, voter)
    return quorum


def _join(log: Log, contents: Contents | None, store: SnapshotStore) -> int:
    """Make log and snapshot fit together; the epoch of the last record before the log's start."""
    if contents is None:
        if log.start_offset > 0:
            raise _torn(log, "there is no whole snapshot")
        return NO_EPOCH
    end_offset, epoch = contents.snapshot
    if end_offset < log.start_offset:
        raise _torn(log, f"the newest whole snapshot ends at {end_offset}")
    known = end_offset == log.start_offset or log.epochs.epoch_at(end_offset - 1) == epoch
    if end_offset > log.end_offset or not known:
        logger.warning("the metadata log is dropped, the snapshot that ends at %s is newer", end_offset)
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
        f"the metadata log in {log.directory} begins at offset {log.start_offset}, and {what}: what came "
        "before is missing. Put the snapshot (*.checkpoint) back from a copy; or, if other controllers of "
        f"the cluster run, move {log.directory} away and start again: this node then gets all from them"
    )


def _sync(log: Log, now_ms: int) -> None:
    """What was found may be in the page cache only: a voter counts it once it is synced."""
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
