"""DescribeCluster, versions 0 to 2: only endpoints of brokers are served."""

from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.handlers.metadata import controller_of
from tidelog.broker.requests.access import operations_for
from tidelog.broker.requests.request import RequestContext
from tidelog.controller.endpoints import endpoint_for
from tidelog.errors import ErrorCode
from tidelog.protocol.messages import Fields
from tidelog.security.acls import CLUSTER_NAME, ResourceType

BROKERS, CONTROLLERS = 1, 2


def handle(broker: Broker, request: Any, context: RequestContext) -> Fields:
    endpoint_type = getattr(request, "endpoint_type", BROKERS)
    if endpoint_type != BROKERS:
        code = (
            ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if endpoint_type == CONTROLLERS
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
        )
        return {
            "error_code": code,
            "error_message": "this is the endpoint of a broker",
            "endpoint_type": endpoint_type,
        }
    image = broker.image
    rights: Fields = {}
    if request.include_cluster_authorized_operations:
        operations = operations_for(broker, context, ResourceType.CLUSTER, CLUSTER_NAME)
        rights = {"cluster_authorized_operations": operations}
    return {
        **rights,
        "endpoint_type": BROKERS,
        "cluster_id": image.cluster_id,
        "controller_id": controller_of(broker),
        "brokers": [
            {
                "broker_id": node.broker_id,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": node.rack,
                "is_fenced": node.fenced,
            }
            for node in image.brokers.values()
            if not node.fenced or getattr(request, "include_fenced_brokers", False)
            if (endpoint := endpoint_for(image, broker.broker_id, node, context.listener)) is not None
        ],
    }
