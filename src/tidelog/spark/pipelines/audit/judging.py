"""Rows of batches to findings: what must hold inside each replica, and between them below the high watermark.

Owns the rules, as queries. A finding is a violation; a lagging replica is not, and is only reported.

========== ==========================================================================================
kind       what was found
========== ==========================================================================================
corrupt    bytes whose CRC, length or counts are wrong
order      a batch that begins before the one before it ended, or has an older leader epoch
gap        offsets that no batch has (allowed if the topic is compacted)
duplicate  a producer's sequence number twice in the same epoch: a retry that was appended again
differs    below the high watermark, another batch than the most complete replica has, or none; in compacted
           topics another record, or not the newest of its key (:mod:`.compacted`)
unread     a replica, or the rest of it, could not be read: nothing is known of it
========== ==========================================================================================
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INSIDE = """
with ordered as (
  select *,
    lag(next_offset) over (partition by topic, partition, broker order by number) as expected,
    lag(leader_epoch) over (partition by topic, partition, broker order by number) as epoch_before
  from {batches}
)
select 'corrupt' as kind, topic, partition, base_offset as offset, broker, fault as detail, place
  from ordered where fault is not null
union all
select 'order', topic, partition, base_offset, broker,
    concat('begins at ', base_offset, ', but the batch before ended at ', expected), place
  from ordered where base_offset < expected
union all
select 'order', topic, partition, base_offset, broker,
    concat('has leader epoch ', leader_epoch, ' behind ', epoch_before), place
  from ordered where leader_epoch < epoch_before
union all
select 'gap', topic, partition, expected, broker,
    concat('offsets ', expected, ' to ', base_offset - 1, ' are in no batch'), place
  from ordered where base_offset > expected
"""

_UNREAD = """
select 'unread' as kind, topic, partition, base_offset as offset, broker, unread as detail, place
from {rows} where unread is not null
"""

_DUPLICATES = """
select 'duplicate' as kind, topic, partition, base_offset as offset, broker,
    concat('sequence ', base_sequence, ' of producer ', producer_id, ' epoch ', producer_epoch,
           ' was already at offset ', first_offset) as detail, place
from (
  select *, min(base_offset) over same as first_offset
  from {batches} where producer_id >= 0 and base_sequence >= 0 and fault is null
  window same as (partition by topic, partition, broker, producer_id, producer_epoch, base_sequence)
) where base_offset > first_offset
"""

# Of the replicas with the fewest faults the one that reaches furthest, and of those the one with the most
# batches, is the reference.
_ENDS = """
select topic, partition, broker, min(base_offset) as start, max(next_offset) as end,
  first_value(broker) over (
    partition by topic, partition
    order by count_if(fault is not null), max(next_offset) desc, count(*) desc, broker
  ) as reference
from {batches} group by topic, partition, broker
"""

_NOT_THE_BATCH, _HAS = "not the batch that ", " has"
_DIFFERS = """
with bounds as (
  select e.topic, e.partition, e.broker, e.reference, greatest(e.start, r.start) as low,
         least(e.end, r.end, w.high_watermark) as high
  from {ends} e join {ends} r on r.topic = e.topic and r.partition = e.partition and r.broker = e.reference
  join {watermarks} w on w.topic = e.topic and w.partition = e.partition
  where e.broker <> e.reference
), own as (
  select b.*, x.reference from {batches} b join bounds x using (topic, partition, broker)
  where b.base_offset >= x.low and b.next_offset <= x.high
), theirs as (
  select x.broker as judged, b.* from {batches} b join bounds x
    on b.topic = x.topic and b.partition = x.partition and b.broker = x.reference
  where b.base_offset >= x.low and b.next_offset <= x.high
)
select 'differs' as kind, coalesce(own.topic, theirs.topic) as topic,
  coalesce(own.partition, theirs.partition) as partition,
  coalesce(own.base_offset, theirs.base_offset) as offset, coalesce(own.broker, theirs.judged) as broker,
  concat('not the batch that ', coalesce(own.reference, theirs.broker), ' has') as detail,
  coalesce(own.place, 'missing') as place
from own full outer join theirs on own.topic = theirs.topic and own.partition = theirs.partition
  and own.broker = theirs.judged and own.base_offset = theirs.base_offset
where own.digest is null or theirs.digest is null or own.digest <> theirs.digest
"""


def findings(
    spark: "SparkSession", batches: "DataFrame", watermarks: "DataFrame", compacted: list[str]
) -> "DataFrame":
    """kind, topic, partition, offset, broker, detail, place."""
    inside = spark.sql(_INSIDE, batches=batches).unionByName(spark.sql(_DUPLICATES, batches=batches))
    reached = ends(spark, batches)
    differing = spark.sql(_DIFFERS, batches=batches, ends=reached, watermarks=watermarks)
    found = inside.unionByName(differing)
    # Compacted replicas agree about the remaining records, not about their batches.
    allowed = found.topic.isin(compacted) & found.kind.isin("gap", "differs")
    return found.where(~allowed)


def unread(spark: "SparkSession", rows: "DataFrame") -> "DataFrame":
    """The same columns."""
    return spark.sql(_UNREAD, rows=rows)


def reference_in(detail: str) -> str | None:
    """The replica that a batch was compared with; None if it was not compared by batch."""
    if not (detail.startswith(_NOT_THE_BATCH) and detail.endswith(_HAS)):
        return None
    return detail.removeprefix(_NOT_THE_BATCH).removesuffix(_HAS)


def ends(spark: "SparkSession", batches: "DataFrame") -> "DataFrame":
    """topic, partition, broker, start, end, reference."""
    return spark.sql(_ENDS, batches=batches)
