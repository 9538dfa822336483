"""Events to figures: performance, consistency and availability of each run, as queries.

Owns what each figure means.

================ ==========================================================================================
performance      acknowledged records and bytes per second, and the time from sending to acknowledgement, over
                 the whole run and for each step of time
lost             acknowledged, and never received
duplicated       received at more than one offset of the partition (counted once for each offset too many)
reordered        received, in the order of offsets, behind a later record of the same producer and partition
downtime         for each fault: the longest time without an acknowledgement in any partition that was written
                 to before, from the fault to the next one
================ ==========================================================================================
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PERCENTILES = """
  percentile_approx(time_us - sent_us, array(0.5, 0.99, 0.999), 10000) as p,
  max(time_us - sent_us) as slowest
"""

_OVERALL = f"""
select run, mode, count(*) as acknowledged, sum(bytes) as bytes,
  (max(time_us) - min(time_us)) / 1e6 as seconds, {_PERCENTILES}
from {{events}} where kind = 'acknowledged' group by run, mode
"""

_OVER_TIME = f"""
with begun as (select run, min(time_us) as start from {{events}} where kind = 'acknowledged' group by run)
select e.run, e.mode, floor((time_us - start) / {{step_us}}) * {{step_us}} / 1e6 as second,
  count(*) as acknowledged, sum(bytes) as bytes, {_PERCENTILES}
from {{events}} e join begun b on e.run = b.run where kind = 'acknowledged'
group by all order by e.run, second
"""

_CONSISTENCY = """
with wanted as (
  select distinct run, producer, partition, sequence from {events} where kind = 'acknowledged'
), received as (
  select run, producer, partition, sequence, offset from {events} where kind = 'received'
  group by all
), copies as (
  select run, producer, partition, sequence, count(*) as places, min(offset) as offset
  from received group by run, producer, partition, sequence
), ordered as (
  select *, max(sequence) over (partition by run, producer, partition order by offset
    rows between unbounded preceding and 1 preceding) as before from copies
), losses as (
  select w.run, count(*) as lost from wanted w left anti join copies c
    on c.run = w.run and c.producer = w.producer and c.partition = w.partition and c.sequence = w.sequence
  group by w.run
)
select o.run, count(*) as received, sum(places - 1) as duplicated,
  count_if(before > sequence) as reordered, coalesce(max(lost), 0) as lost
from ordered o left join losses l on l.run = o.run group by o.run
"""

# A gap belongs to the last fault before its end, if that fault came before the gap was over and after it
# could begin.
_DOWNTIME = """
with faults as (
  select run, name, time_us as fault_us,
    coalesce(lead(time_us) over (partition by run order by time_us), 9223372036854775807) as next_us
  from {events} where kind = 'fault'
), gaps as (
  select run, partition, lag(time_us) over (partition by run, partition order by time_us) as from_us,
    time_us as to_us
  from {events} where kind = 'acknowledged'
)
select f.run, f.name, f.fault_us, max(to_us - greatest(from_us, fault_us)) / 1e3 as downtime_ms,
  max_by(g.partition, to_us - greatest(from_us, fault_us)) as partition
from faults f left join gaps g
  on g.run = f.run and g.to_us > f.fault_us and g.from_us < f.next_us and g.from_us is not null
group by f.run, f.name, f.fault_us order by f.run, f.fault_us
"""


def overall(spark: "SparkSession", events: "DataFrame") -> "DataFrame":
    return spark.sql(_OVERALL, events=events)


def over_time(spark: "SparkSession", events: "DataFrame", step_s: float) -> "DataFrame":
    return spark.sql(_OVER_TIME, events=events, step_us=int(step_s * 1e6))


def consistency(spark: "SparkSession", events: "DataFrame") -> "DataFrame":
    return spark.sql(_CONSISTENCY, events=events)


def downtime(spark: "SparkSession", events: "DataFrame") -> "DataFrame":
    return spark.sql(_DOWNTIME, events=events)
