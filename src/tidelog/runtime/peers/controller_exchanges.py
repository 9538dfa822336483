"""Brokers' requests to the active controller: registration, heartbeats, and in-sync set changes."""

from collections.abc import Hashable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, cast
from uuid import UUID

from tidelog.broker.node.ports import Answered, Asked
from tidelog.controller.endpoints import Endpoint
from tidelog.controller.leader_assignment import InSyncProposal
from tidelog.controller.messages import (
    HeartbeatAsk,
    HeartbeatGot,
    InSyncAsk,
    InSyncGot,
    OfflineAsk,
    OfflineGot,
    PromiseConfirmedAsk,
    PromiseConfirmedGot,
    RegisterAsk,
    RegisterGot,
)
from tidelog.controller.promises import ConfirmedPromise
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.protocol.wire import Malformed
from tidelog.runtime.peers.exchange import UNANSWERED, Exchange, by_topic

PEERS = "PLAINTEXT"  # Name of the first listener in a registration.
# Values of leader_recovery_state. In Kafka it marks an unclean leader; here it has more meanings.
ELECTED, SEALED = 1, 2
LOST = UUID(int=1)  # Kafka's id for a directory that has failed
HERE = UUID(int=2)  # Kafka's id for a directory without a name: the only one here
UNWRITABLE = UUID(int=3)  # Not in Kafka: the log has failed, but its synced records are still there.
LOST_AT = 4 << 64  # Not in Kafka: the log is damaged; the lower bits are the partition epoch of the report.
# Not in Kafka: a promise that is confirmed; the lower bits say which one, and its promise epoch.
CONFIRMED, SYNCED, COPIED, EPOCH_BITS = 3 << 64, 1 << 32, 1 << 33, (1 << 32) - 1


class RegistrationExchange(Exchange[Asked, Answered]):
    api_key = 62

    def body(self, to: int, cluster_id: str, asks: Sequence[Asked]) -> Fields:
        ask = cast(RegisterAsk, asks[0].ask)
        # The first is where other nodes connect to this one. It is there twice if clients use it, too.
        peers = Endpoint(PEERS, ask.host, ask.port)
        return {
            "broker_id": ask.broker_id,
            "cluster_id": cluster_id,
            "incarnation_id": ask.incarnation,
            "listeners": [_listener(each) for each in (peers, *ask.endpoints)],
            "features": [
                {"name": name, "min_supported_version": value, "max_supported_version": value}
                for name, value in ask.cluster_settings
            ],
            "rack": ask.rack,
            "log_dirs": [] if ask.directory is None else [ask.directory],
            "previous_broker_epoch": _memory_of(ask),
        }

    def asks(self, request: Any) -> list[Asked]:
        if not request.listeners or request.incarnation_id is None:
            raise Malformed("a registration without an address or an incarnation")
        listener, *others = request.listeners
        ask = RegisterAsk(
            request.broker_id,
            request.incarnation_id,
            listener.host,
            listener.port,
            request.rack,
            request.previous_broker_epoch < 0,
            request.log_dirs[0] if request.log_dirs else None,
            tuple((feature.name, feature.max_supported_version) for feature in request.features),
            _known_epoch(request.previous_broker_epoch),
            tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in others),
        )
        return [Asked(request.broker_id, ask)]

    def response(self, asks: Sequence[Asked], gots: Sequence[Answered | None]) -> Fields:
        if gots[0] is None:
            return {"error_code": UNANSWERED}
        got = cast(RegisterGot, gots[0].got)
        return {"error_code": got.error, "broker_epoch": got.broker_epoch}

    def gots(self, peer: int, asks: Sequence[Asked], response: Any) -> Iterator[Answered]:
        ask = cast(RegisterAsk, asks[0].ask)
        error = ErrorCode(response.error_code)
        yield Answered(peer, RegisterGot(ask.broker_id, ask.incarnation, error, response.broker_epoch))

    def token(self, message: Asked | Answered) -> Hashable:
        said = message.ask if isinstance(message, Asked) else message.got
        return cast(RegisterAsk | RegisterGot, said).incarnation


def _listener(endpoint: Endpoint) -> Fields:
    return {
        "name": endpoint.name,
        "host": endpoint.host,
        "port": endpoint.port,
        "security_protocol": endpoint.protocol,
    }


def _memory_of(ask: RegisterAsk) -> int:
    """Encodes whether data was lost (negative), and the known registration (its epoch + 1)."""
    known = 0 if ask.known_epoch is None else ask.known_epoch + 1
    return -1 - known if ask.forgot else known


def _known_epoch(memory: int) -> int | None:
    known = -1 - memory if memory < 0 else memory
    return known - 1 if known else None


class HeartbeatExchange(Exchange[Asked, Answered]):
    api_key = 63

    def body(self, to: int, cluster_id: str, asks: Sequence[Asked]) -> Fields:
        ask = cast(HeartbeatAsk, asks[0].ask)
        return {
            "broker_id": ask.broker_id,
            "broker_epoch": ask.broker_epoch,
            "current_metadata_offset": ask.metadata_offset,
            "want_shut_down": ask.leaving,
        }

    def asks(self, request: Any) -> list[Asked]:
        ask = HeartbeatAsk(
            request.broker_id,
            request.broker_epoch,
            request.current_metadata_offset,
            request.want_shut_down,
        )
        return [Asked(request.broker_id, ask)]

    def response(self, asks: Sequence[Asked], gots: Sequence[Answered | None]) -> Fields:
        if gots[0] is None:
            return {"error_code": UNANSWERED}
        got = cast(HeartbeatGot, gots[0].got)
        return {
            "error_code": got.error,
            "is_caught_up": not got.fenced,
            "is_fenced": got.fenced,
            "should_shut_down": got.may_stop,
        }

    def gots(self, peer: int, asks: Sequence[Asked], response: Any) -> Iterator[Answered]:
        ask = cast(HeartbeatAsk, asks[0].ask)
        error = ErrorCode(response.error_code)
        # The number is not in the protocol. It is that of the request to which the response belongs.
        got = HeartbeatGot(
            ask.broker_id, ask.broker_epoch, error, response.is_fenced, response.should_shut_down, ask.number
        )
        yield Answered(peer, got)

    def token(self, message: Asked | Answered) -> Hashable:
        said = message.ask if isinstance(message, Asked) else message.got
        return cast(HeartbeatAsk | HeartbeatGot, said).broker_epoch


class AlterPartitionExchange(Exchange[Asked, Answered]):
    api_key = 56
    at_once_max = 100  # about 3 ms to encode; the controller decides fewer at once

    def body(self, to: int, cluster_id: str, asks: Sequence[Asked]) -> Fields:
        def partition(proposal: InSyncProposal) -> Fields:
            return {
                "partition_index": proposal.partition,
                "leader_epoch": proposal.leader_epoch,
                "new_isr_with_epochs": [
                    {"broker_id": member, "broker_epoch": epoch}
                    for member, epoch in zip_longest(proposal.members, proposal.member_epochs, fillvalue=-1)
                ],
                "partition_epoch": proposal.partition_epoch,
                "leader_recovery_state": SEALED if proposal.sealed else int(proposal.elected),
            }

        proposals = [cast(InSyncAsk, asked.ask).proposal for asked in asks]
        topics = by_topic(proposals, _proposal_key, partition)
        return {
            "broker_id": proposals[0].broker_id,
            "broker_epoch": proposals[0].broker_epoch,
            "topics": [{"topic_id": topic, "partitions": parts} for topic, parts in topics],
        }

    def asks(self, request: Any) -> list[Asked]:
        return [
            Asked(
                request.broker_id,
                InSyncAsk(
                    InSyncProposal(
                        request.broker_id,
                        request.broker_epoch,
                        topic.topic_id,
                        part.partition_index,
                        part.leader_epoch,
                        part.partition_epoch,
                        tuple(member.broker_id for member in part.new_isr_with_epochs),
                        tuple(member.broker_epoch for member in part.new_isr_with_epochs),
                        part.leader_recovery_state == ELECTED,
                        part.leader_recovery_state == SEALED,
                    )
                ),
            )
            for topic in request.topics
            for part in topic.partitions
        ]

    def response(self, asks: Sequence[Asked], gots: Sequence[Answered | None]) -> Fields:
        def partition(pair: tuple[InSyncProposal, ErrorCode]) -> Fields:
            proposal, error = pair
            return {
                "partition_index": proposal.partition,
                "error_code": error,
                "leader_id": proposal.broker_id,
                "leader_epoch": proposal.leader_epoch,
                "isr": proposal.members,
                "partition_epoch": proposal.partition_epoch,
            }

        pairs = [
            (
                cast(InSyncAsk, asked.ask).proposal,
                cast(InSyncGot, answered.got).error if answered else UNANSWERED,
            )
            for asked, answered in zip(asks, gots, strict=True)
        ]
        topics = by_topic(pairs, lambda pair: _proposal_key(pair[0]), partition)
        return {"topics": [{"topic_id": topic, "partitions": parts} for topic, parts in topics]}

    def gots(self, peer: int, asks: Sequence[Asked], response: Any) -> Iterator[Answered]:
        top = ErrorCode(response.error_code)
        errors = {
            (topic.topic_id, part.partition_index): ErrorCode(part.error_code)
            for topic in response.topics
            for part in topic.partitions
        }
        for asked in asks:
            proposal = cast(InSyncAsk, asked.ask).proposal
            yield Answered(peer, InSyncGot(proposal, top or errors.get(_proposal_key(proposal), UNANSWERED)))

    def token(self, message: Asked | Answered) -> Hashable:
        said = message.ask if isinstance(message, Asked) else message.got
        return cast(InSyncAsk | InSyncGot, said).proposal


class FailedLogsExchange(Exchange[Asked, Answered]):
    """In Kafka, brokers report the directory of each replica with this request. Here a broker has only one
    directory, and reports failed and damaged logs, and promises that are confirmed.
    """

    api_key = 73
    elements_max = 300_000  # A broker reports all of its failed logs at once.

    def body(self, to: int, cluster_id: str, asks: Sequence[Asked]) -> Fields:
        ask = cast(OfflineAsk | PromiseConfirmedAsk, asks[0].ask)
        if isinstance(ask, PromiseConfirmedAsk):
            return _confirmed_body(ask)
        directories = [
            {
                "id_": where,
                "topics": [
                    {"topic_id": topic, "partitions": parts}
                    for topic, parts in by_topic(
                        keys, lambda key: key, lambda key: {"partition_index": key[1]}
                    )
                ],
            }
            for where, keys in _offline_directories(ask).items()
        ]
        return {"broker_id": ask.broker_id, "broker_epoch": ask.broker_epoch, "directories": directories}

    def asks(self, request: Any) -> list[Asked]:
        if request.directories and all(_is_confirmed(directory.id_) for directory in request.directories):
            return [Asked(request.broker_id, _confirmed_ask(request))]
        if request.directories and all(_is_lost_at(directory.id_) for directory in request.directories):
            return [Asked(request.broker_id, _lost_ask(request))]
        if len(request.directories) != 1 or request.directories[0].id_ not in (LOST, HERE, UNWRITABLE):
            raise Malformed("unknown directory ids in a report about logs")
        directory = request.directories[0]
        partitions = tuple(
            (topic.topic_id, part.partition_index) for topic in directory.topics for part in topic.partitions
        )
        ask = OfflineAsk(
            request.broker_id,
            request.broker_epoch,
            partitions,
            directory.id_ == HERE,
            directory.id_ == UNWRITABLE,
        )
        return [Asked(request.broker_id, ask)]

    def response(self, asks: Sequence[Asked], gots: Sequence[Answered | None]) -> Fields:
        error = UNANSWERED if gots[0] is None else cast(OfflineGot | PromiseConfirmedGot, gots[0].got).error
        return {"error_code": error, "directories": []}

    def gots(self, peer: int, asks: Sequence[Asked], response: Any) -> Iterator[Answered]:
        ask = cast(OfflineAsk | PromiseConfirmedAsk, asks[0].ask)
        error = ErrorCode(response.error_code)
        if isinstance(ask, PromiseConfirmedAsk):
            yield Answered(peer, PromiseConfirmedGot(ask.broker_id, ask.broker_epoch, ask.confirmed, error))
            return
        got = OfflineGot(ask.broker_id, ask.broker_epoch, ask.partitions, error, ask.healed, ask.unwritable)
        yield Answered(peer, got)

    def token(self, message: Asked | Answered) -> Hashable:
        said = message.ask if isinstance(message, Asked) else message.got
        if isinstance(said, PromiseConfirmedAsk | PromiseConfirmedGot):
            return said.broker_epoch, said.confirmed
        said = cast(OfflineAsk | OfflineGot, said)
        return said.broker_epoch, said.partitions, said.healed, said.unwritable


def _proposal_key(proposal: InSyncProposal) -> tuple[UUID, int]:
    return proposal.topic_id, proposal.partition


def _offline_directories(ask: OfflineAsk) -> dict[UUID, list[tuple[UUID, int]]]:
    """One directory for each partition epoch, if the report contains epochs. An unknown epoch counts as 0."""
    if not ask.partition_epochs:
        where = HERE if ask.healed else UNWRITABLE if ask.unwritable else LOST
        return {where: list(ask.partitions)}
    directories: dict[UUID, list[tuple[UUID, int]]] = {}
    for key, epoch in zip(ask.partitions, ask.partition_epochs, strict=True):
        directories.setdefault(UUID(int=LOST_AT | max(epoch, 0)), []).append(key)
    return directories


def _is_lost_at(directory: UUID | None) -> bool:
    return directory is not None and directory.int & ~EPOCH_BITS == LOST_AT


def _lost_ask(request: Any) -> OfflineAsk:
    known = {
        (topic.topic_id, part.partition_index): directory.id_.int & EPOCH_BITS
        for directory in request.directories
        for topic in directory.topics
        for part in topic.partitions
    }
    epochs = tuple(known.values())
    return OfflineAsk(request.broker_id, request.broker_epoch, tuple(known), partition_epochs=epochs)


def _confirmed_body(ask: PromiseConfirmedAsk) -> Fields:
    """One directory for each combination of promise epoch and confirmed promises."""
    directories: dict[int, list[ConfirmedPromise]] = {}
    for confirmed in ask.confirmed:
        what = CONFIRMED | SYNCED * confirmed.synced | COPIED * confirmed.copied | confirmed.promise_epoch
        directories.setdefault(what, []).append(confirmed)
    return {
        "broker_id": ask.broker_id,
        "broker_epoch": ask.broker_epoch,
        "directories": [
            {
                "id_": UUID(int=what),
                "topics": [
                    {"topic_id": topic, "partitions": parts}
                    for topic, parts in by_topic(
                        confirmed,
                        lambda each: (each.topic_id, each.partition),
                        lambda each: {"partition_index": each.partition},
                    )
                ],
            }
            for what, confirmed in directories.items()
        ],
    }


def _is_confirmed(directory: UUID | None) -> bool:
    return directory is not None and directory.int & ~(SYNCED | COPIED | EPOCH_BITS) == CONFIRMED


def _confirmed_ask(request: Any) -> PromiseConfirmedAsk:
    confirmed = tuple(
        ConfirmedPromise(
            topic.topic_id,
            part.partition_index,
            directory.id_.int & EPOCH_BITS,
            bool(directory.id_.int & SYNCED),
            bool(directory.id_.int & COPIED),
        )
        for directory in request.directories
        for topic in directory.topics
        for part in topic.partitions
    )
    return PromiseConfirmedAsk(request.broker_id, request.broker_epoch, confirmed)
