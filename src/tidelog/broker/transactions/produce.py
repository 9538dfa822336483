"""Produce with a transactional id: a batch is admitted before it is appended.

A batch that needs no admission is appended immediately, in the order in which its producer sent it. A batch
that waits keeps its bytes: the buffer of a request is not reused before the response is sent.
"""

from collections.abc import Callable

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.transactions.admission import Admission, client_of_produce
from tidelog.errors import TidelogError
from tidelog.protocol.batch import HEADER_SIZE, TRANSACTIONAL_MASK, parse_header
from tidelog.transactions.rules import ProducerIdAndEpoch

Append = Callable[[memoryview, bool], None]
"""Append a batch. The flag says whether it belongs to a transaction that the coordinator knows."""


def when_admitted(
    admission: Admission,
    partition: Partition,
    transactional_id: str,
    records: memoryview,
    version: int,
    append: Append,
    refuse: Callable[[TidelogError], None],
) -> None:
    if len(records) < HEADER_SIZE:
        append(records, False)
        return
    header = parse_header(records)
    if not header.attributes & TRANSACTIONAL_MASK or header.producer_id < 0:
        append(records, False)
        return
    producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
    client = client_of_produce(version)
    decision = admission.decide(partition, transactional_id, producer, client)
    if isinstance(decision, TidelogError):
        refuse(decision)
    elif decision:
        append(records, True)
    else:
        admission.admit(
            partition,
            transactional_id,
            producer,
            client,
            lambda refusal: append(records, True) if refusal is None else refuse(refusal),
        )
