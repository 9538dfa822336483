"""The messages between nodes as Kafka requests: all except fetches, which have their own encoder.

=================== ====================== ===============================================================
message             request                difference from Kafka
=================== ====================== ===============================================================
VoteRequested       Vote                   the request has topic names, not ids: the topic id is used as name,
                                           except for the metadata log, which has a name
LeaderBegan         BeginQuorumEpoch       as for votes
StandNow            EndQuorumEpoch         as for votes; the receiver is the preferred candidate
RegisterAsk         BrokerRegistration     ``previous_broker_epoch`` is negative if the broker lost data, and
                                           contains the registration that it knows; settings that must be
                                           the same on all brokers are "features"
HeartbeatAsk        BrokerHeartbeat        –
InSyncAsk           AlterPartition         "recovering" if an elected leader reports itself
OfflineAsk          AssignReplicasToDirs   the directory id says whether the log failed or is damaged
PromiseConfirmedAsk  AssignReplicasToDirs   the directory id says which promise is confirmed
SnapshotAsk         FetchSnapshot          as for votes
TailAsk             OffsetForLeaderEpoch   as for votes; the end of any epoch is that of the log
=================== ====================== ===============================================================

Each exchange implements both ends. A request may contain several questions of its kind (votes and in-sync
sets of many partitions). Each is answered by a separate message, which is matched by its ``token``.
"""

from typing import Any

from tidelog.broker.node.ports import Answered, Asked, NodeMessage
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
from tidelog.protocol import fetch, follower_fetch, messages, requests
from tidelog.replication.messages import (
    LeaderBegan,
    SnapshotAsk,
    SnapshotGot,
    StandNow,
    TailAsk,
    TailGot,
    VoteRequested,
    VoteResponded,
)
from tidelog.runtime.peers.controller_exchanges import (
    AlterPartitionExchange,
    FailedLogsExchange,
    HeartbeatExchange,
    RegistrationExchange,
)
from tidelog.runtime.peers.exchange import Exchange
from tidelog.runtime.peers.replica_exchanges import (
    HandOverExchange,
    NewLeaderExchange,
    SnapshotExchange,
    VoteExchange,
)
from tidelog.runtime.peers.tail_exchange import TailExchange

VOTING = VoteExchange()
NEW_LEADERS = NewLeaderExchange()
HAND_OVERS = HandOverExchange()
REGISTERING = RegistrationExchange()
HEARTBEATS = HeartbeatExchange()
IN_SYNC_CHANGES = AlterPartitionExchange()
FAILED_LOGS = FailedLogsExchange()
SNAPSHOTS = SnapshotExchange()
TAILS = TailExchange()

BY_API: dict[int, Exchange[Any, Any]] = {
    exchange.api_key: exchange
    for exchange in (
        VOTING,
        NEW_LEADERS,
        HAND_OVERS,
        REGISTERING,
        HEARTBEATS,
        IN_SYNC_CHANGES,
        FAILED_LOGS,
        SNAPSHOTS,
        TAILS,
    )
}

_BY_TYPE: dict[type, Exchange[Any, Any]] = {
    VoteRequested: VOTING,
    VoteResponded: VOTING,
    LeaderBegan: NEW_LEADERS,
    StandNow: HAND_OVERS,
    RegisterAsk: REGISTERING,
    RegisterGot: REGISTERING,
    HeartbeatAsk: HEARTBEATS,
    HeartbeatGot: HEARTBEATS,
    InSyncAsk: IN_SYNC_CHANGES,
    InSyncGot: IN_SYNC_CHANGES,
    OfflineAsk: FAILED_LOGS,
    OfflineGot: FAILED_LOGS,
    PromiseConfirmedAsk: FAILED_LOGS,
    PromiseConfirmedGot: FAILED_LOGS,
    SnapshotAsk: SNAPSHOTS,
    SnapshotGot: SNAPSHOTS,
    TailAsk: TAILS,
    TailGot: TAILS,
}


def load_exchanges() -> None:
    """Import the schemas of all of them. Safe in any thread."""
    for api_key in BY_API:
        requests.load(api_key)
    # A follower's fetch is decoded by hand, but its header needs the schema.
    messages.is_flexible(fetch.API_KEY, follower_fetch.VERSION)


def exchange_of(message: NodeMessage) -> Exchange[Any, Any]:
    said: object = message
    if isinstance(message, Asked):
        said = message.ask
    elif isinstance(message, Answered):
        said = message.got
    return _BY_TYPE[type(said)]
