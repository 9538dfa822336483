"""Events to figures: performance, consistency and availability of each mode in each run, as queries.

Owns what each figure means.

================ ==========================================================================================
performance      acknowledged records and bytes per second, and the time from sending to acknowledgement, over
                 the whole run and for each step of time
lost             acknowledged, and never received
unacknowledged   received, though it failed, was aborted, or its producer never learned
misplaced        received, but not at the offset it was acknowledged at
vanished         read by a consumer group, and not received at the end; for a group that also reads open
                 transactions, records of transactions that were not committed do not count
torn             transactions of which some records were received and some not, or that were received though
                 they were aborted
skipped          acknowledged and received, but a group that read records before and after it never read it
lost commits     offsets of a group that were confirmed, and a lower one was returned later
duplicated       received at more than one offset of the partition (counted once for each offset too many)
reordered        received, in the order of offsets, after a later record of the same producer and partition
downtime         for each fault: the longest time, from the fault to the next one, in which writes to a
                 partition waited and none was acknowledged; where none was until the end, it is not over. A
                 producer that sends nothing waits for nothing: pauses of the load are no downtime
================ ==========================================================================================
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PERCENTILES = """
  percentile_approx(time_us - sent_us, array(0.5, 0.99, 0.999), 10000)
    filter (where kind = 'acknowledged') as p,
  max(time_us - sent_us) filter (where kind = 'acknowledged') as slowest
"""

_OVERALL = f"""
select run, mode, count_if(kind = 'acknowledged') as acknowledged,
  count_if(kind in ('failed', 'aborted')) as failed,
  sum(bytes) filter (where kind = 'acknowledged') as bytes,
  min(time_us) filter (where kind = 'acknowledged') as begin_us,
  max(time_us) filter (where kind = 'acknowledged') as end_us, {_PERCENTILES}
from {{events}} group by run, mode order by run, mode
"""

# All modes of a run share its start, so that the same moment has the same place in a picture.
_OVER_TIME = f"""
with begun as (select run, min(time_us) as start from {{events}} where kind = 'acknowledged' group by run)
select e.run, e.mode, cast(floor((time_us - start) / {{step_us}}) as long) as step,
  count(*) as acknowledged, sum(bytes) as bytes, {_PERCENTILES}
from {{events}} e join begun b on e.run = b.run where kind = 'acknowledged'
group by all order by e.run, e.mode, step
"""

_CONSISTENCY = """
with wanted as (
  select distinct run, mode, producer, partition, sequence from {events} where kind = 'acknowledged'
), received as (
  select run, mode, producer, partition, sequence, offset from {events}
  where kind = 'received' and sequence is not null group by all
), copies as (
  select run, mode, producer, partition, sequence, count(*) as places, min(offset) as offset
  from received group by run, mode, producer, partition, sequence
), ordered as (
  select *, max(sequence) over (partition by run, mode, producer, partition order by offset
    rows between unbounded preceding and 1 preceding) as before from copies
), losses as (
  select run, mode, count(*) as lost from wanted
    left anti join copies using (run, mode, producer, partition, sequence)
  group by run, mode
), arrivals as (
  select run, mode, count(*) as received, sum(places - 1) as duplicated,
    count_if(before > sequence) as reordered
  from ordered group by run, mode
)
select run, mode, coalesce(received, 0) as received, coalesce(duplicated, 0) as duplicated,
  coalesce(reordered, 0) as reordered, coalesce(lost, 0) as lost
from arrivals full outer join losses using (run, mode)
"""

# What the account of the lab knows besides: see tidelog.lab.figures.consistency.
_ACCOUNT = """
with acked as (
  select run, mode, producer, partition, sequence, max(offset) as offset from {events}
  where kind = 'acknowledged' group by run, mode, producer, partition, sequence
), places as (
  select distinct run, mode, producer, partition, sequence, offset from {events}
  where kind = 'received' and sequence is not null
), there as (
  select distinct run, mode, producer, partition, sequence from places
), unacknowledged as (
  select run, mode, 'unacknowledged' as what from there
    left anti join acked using (run, mode, producer, partition, sequence)
), misplaced as (
  select a.run, a.mode, 'misplaced' as what from acked a
    left semi join there using (run, mode, producer, partition, sequence)
    left anti join places using (run, mode, producer, partition, sequence, offset)
  where a.offset >= 0
), transactional as (
  select distinct run, mode, split_part(producer, '.', 1) as process from {events}
  where kind in ('acknowledged', 'failed', 'aborted') and transaction is not null
), raw as (
  select distinct run, mode, producer, partition, sequence, split_part(producer, '.', 1) as process
  from {events} where kind = 'consumed-raw'
), seen as (
  select distinct run, mode, producer, partition, sequence from {events} where kind = 'consumed'
  union
  select run, mode, producer, partition, sequence from raw
    left anti join transactional using (run, mode, process)
  union
  select run, mode, producer, partition, sequence from raw
    left semi join acked using (run, mode, producer, partition, sequence)
), vanished as (
  select run, mode, 'vanished' as what from seen
    left anti join there using (run, mode, producer, partition, sequence)
), transactions as (
  select e.run, e.mode, e.producer, e.transaction, count(*) as sent, count(t.present) as visible,
    bool_or(e.kind = 'aborted') as is_aborted
  from {events} e left join (select *, 1 as present from there) t
    on e.run = t.run and e.mode = t.mode and e.producer = t.producer and e.partition = t.partition
      and e.sequence = t.sequence
  where e.kind in ('acknowledged', 'failed', 'aborted') and e.transaction is not null
  group by e.run, e.mode, e.producer, e.transaction
), torn as (
  select run, mode, 'torn' as what from transactions
  where visible > 0 and (visible < sent or is_aborted)
), spans as (
  select run, mode, reader, partition, min(offset) as first, max(offset) as last from {events}
  where kind in ('consumed', 'consumed-raw') group by run, mode, reader, partition
), passed as (
  select p.run, p.mode, p.producer, p.partition, p.sequence, s.reader
  from (select run, mode, producer, partition, sequence, min(offset) as offset from places
      left semi join acked using (run, mode, producer, partition, sequence)
      group by run, mode, producer, partition, sequence) p
    join spans s on p.run = s.run and p.mode = s.mode and p.partition = s.partition
      and p.offset > s.first and p.offset < s.last
), skipped as (
  select run, mode, 'skipped' as what from passed left anti join (
      select run, mode, producer, partition, sequence, reader from {events}
      where kind in ('consumed', 'consumed-raw'))
    using (run, mode, producer, partition, sequence, reader)
), lost_commits as (
  select distinct c.run, c.mode, 'lost_commits' as what, c.reader, c.partition, c.offset
  from {events} c join {events} f
    on c.run = f.run and c.mode = f.mode and c.reader = f.reader and c.partition = f.partition
      and c.time_us <= f.time_us and c.offset > f.offset
  where c.kind = 'committed' and f.kind = 'found'
)
select run, mode, count_if(what = 'unacknowledged') as unacknowledged,
  count_if(what = 'misplaced') as misplaced, count_if(what = 'vanished') as vanished,
  count_if(what = 'torn') as torn_transactions, count_if(what = 'skipped') as skipped,
  count_if(what = 'lost_commits') as lost_commits
from (
  select * from unacknowledged union all select * from misplaced union all select * from vanished
  union all select * from torn union all select * from skipped
  union all select run, mode, what from lost_commits
) group by run, mode
"""

# A wait is between two acknowledgements of a partition: the second one and the failures before it. It starts
# when the oldest unanswered write was sent. The frame of all later rows is ordered backwards: Spark computes
# one that ends at the last row again for each row, in quadratic time.
_DOWNTIME = """
with troubles as (
  select run, mode, kind, name, time_us as fault_us,
    min(time_us) filter (where kind = 'fault') over later as next_us,
    min(time_us) filter (where kind = 'healed') over later as healed_us
  from {events} where kind in ('fault', 'healed')
  window later as (partition by run, mode order by time_us desc
    rows between unbounded preceding and 1 preceding)
), faults as (
  select run, mode, name, fault_us, coalesce(next_us, 9223372036854775807) as next_us,
    if(healed_us <= coalesce(next_us, healed_us), healed_us, null) as healed_us
  from troubles where kind = 'fault'
), answers as (
  select run, mode, partition, kind, time_us, sent_us,
    count_if(kind = 'acknowledged') over (partition by run, mode, partition order by time_us
      rows between unbounded preceding and 1 preceding) as wait
  from {events} where kind in ('acknowledged', 'failed', 'aborted')
), waits as (
  select run, mode, partition, wait, max(time_us) as to_us, min(sent_us) as sent_us,
    max(time_us) filter (where kind = 'acknowledged') as acked_us
  from answers group by run, mode, partition, wait
), gaps as (
  select run, mode, partition, to_us, acked_us is not null as is_over, greatest(
    lag(acked_us) over (partition by run, mode, partition order by wait),
    min(sent_us) over (partition by run, mode, partition order by wait desc
      rows between unbounded preceding and current row)) as from_us
  from waits
), struck as (
  select f.*, g.partition, is_over, to_us - greatest(from_us, fault_us) as downtime_us
  from faults f left join gaps g
    on g.run = f.run and g.mode = f.mode and g.to_us > f.fault_us and g.from_us < f.next_us
)
select run, mode, name, fault_us, healed_us, max(downtime_us) as downtime_us,
  max_by(partition, downtime_us) as partition, bool_and(is_over) as is_over
from struck group by run, mode, name, fault_us, healed_us order by run, fault_us, mode
"""


def overall(spark: "SparkSession", events: "DataFrame") -> "DataFrame":
    return spark.sql(_OVERALL, events=events)


def over_time(spark: "SparkSession", events: "DataFrame", step_s: float) -> "DataFrame":
    return spark.sql(_OVER_TIME, events=events, step_us=int(step_s * 1e6))


def consistency(spark: "SparkSession", events: "DataFrame") -> "DataFrame":
    return spark.sql(_CONSISTENCY, events=events)


def account(spark: "SparkSession", events: "DataFrame") -> "DataFrame":
    return spark.sql(_ACCOUNT, events=events)


def downtime(spark: "SparkSession", events: "DataFrame") -> "DataFrame":
    return spark.sql(_DOWNTIME, events=events)
