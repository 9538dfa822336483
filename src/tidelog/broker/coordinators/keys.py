"""The partition of an internal topic that holds a group or transactional id. Computed as in Kafka, so that
Kafka's tools find the same partition.
"""

from functools import lru_cache

_INT32_MIN = -(1 << 31)


def java_hash(text: str) -> int:
    """``String.hashCode`` of Java: over UTF-16 code units, in 32 bits."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for place in range(0, len(data), 2):
        value = (31 * value + (data[place] << 8 | data[place + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(4096)
def partition_of(key: str, partitions: int) -> int:
    value = java_hash(key)
    # Java's abs of the smallest integer is negative; Kafka uses 0 instead.
    return 0 if value == _INT32_MIN else abs(value) % partitions
