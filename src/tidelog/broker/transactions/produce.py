"""Produce with a transactional id: a batch is admitted before it is appended.

A batch that needs nobody's leave is appended at once, in the order in which its producer sent it. One that
waits keeps its bytes: a request's buffer is not used again before the request is answered.
"""

from collections.abc import Callable

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.transactions.admission import Admission, client_of_produce
from tidelog.errors import TidelogError
from tidelog.protocol.batch import HEADER_SIZE, TRANSACTIONAL_MASK, parse_header
from tidelog.transactions.rules import ProducerIdAndEpoch

Append = Callable[[memoryview, bool], None]
"""Append a batch, which belongs to a transaction that its coordinator knows, or claims to belong to none."""


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
