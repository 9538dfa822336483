"""Which requests a writer needs, and one sentence if the brokers are too old for them."""

import struct
from collections.abc import Mapping

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import ClientError
from tidelog.spark.writing import ledger_messages, messages, transaction_messages

_KEY = struct.Struct(">hhh")

PLAIN = "Kafka 2.4", messages.VERSIONS
TRANSACTIONAL = (
    "Kafka 3.0",
    {**messages.VERSIONS, **ledger_messages.VERSIONS, **transaction_messages.VERSIONS},
)


class BrokersTooOld(ClientError):
    """They lack a request that is needed."""


def require_brokers(cluster: Cluster, guarantee: str, needs: tuple[str, Mapping[int, int]]) -> None:
    """Raises unless the broker that answers serves all requests of the guarantee."""
    least, needed = needs
    response = cluster.ask(Api.API_VERSIONS, 0, b"", cluster.patience())
    served = api_versions(response)
    missing = [
        Api(api).name
        for api, version in needed.items()
        if not served.get(api, (1, 0))[0] <= version <= served.get(api, (1, 0))[1]
    ]
    if missing:
        raise BrokersTooOld(
            f"Writing with deliveryGuarantee={guarantee} needs brokers like {least} or newer; these do not "
            f"serve {', '.join(missing)} in a version that it uses."
        )


def api_versions(body: memoryview) -> dict[int, tuple[int, int]]:
    """Oldest and newest version of each request."""
    (count,) = struct.unpack_from(">i", body, 2)
    keys = [_KEY.unpack_from(body, 6 + _KEY.size * index) for index in range(count)]
    return {api: (oldest, newest) for api, oldest, newest in keys}
