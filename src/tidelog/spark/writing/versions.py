"""Which requests a writer needs, and one sentence if the brokers are too old for them."""

from collections.abc import Mapping

from tidelog.client.apis import Api
from tidelog.client.cluster import Cluster
from tidelog.client.errors import BrokerTooOld
from tidelog.client.versions import served_ranges
from tidelog.spark.writing import ledger_messages, messages, transaction_messages

PLAIN = "Kafka 2.4", messages.VERSIONS
TRANSACTIONAL = (
    "Kafka 3.0",
    {**messages.VERSIONS, **ledger_messages.VERSIONS, **transaction_messages.VERSIONS},
)


def require_brokers(cluster: Cluster, guarantee: str, needs: tuple[str, Mapping[int, int]]) -> None:
    """Raises unless the broker that answers serves all requests of the guarantee."""
    least, needed = needs
    response = cluster.ask(Api.API_VERSIONS, 0, b"", cluster.patience())
    served = served_ranges(response)
    missing = [
        Api(api).name
        for api, version in needed.items()
        if not served.get(api, (1, 0))[0] <= version <= served.get(api, (1, 0))[1]
    ]
    if missing:
        raise BrokerTooOld(
            f"Writing with deliveryGuarantee={guarantee} needs brokers like {least} or newer; these do not "
            f"serve {', '.join(missing)} in a version that it uses."
        )
