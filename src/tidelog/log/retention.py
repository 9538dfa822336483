"""Which segments have expired. Decides only; the log deletes."""

from collections.abc import Sequence

from tidelog.log.segment import Segment
from tidelog.log.settings import LogSettings


def expired(
    segments: Sequence[Segment], config: LogSettings, *, now_ms: int, start_offset: int, end_offset: int,
    high_watermark: int,
) -> int:  # fmt: skip
    """How many of the oldest segments may be deleted. May include the active one: the log then rolls first.

    Nothing at or above the high watermark is deleted: it is not committed yet, and followers still fetch it.
    Only a prefix is deleted, so that no hole opens. The age of a segment that is damaged is never
    overestimated: other replicas would follow and delete their intact ones, too.
    """
    retention_ms, retention_bytes = -1, -1
    ahead_max_ms = config.message_timestamp_after_max_ms
    if "delete" in config.cleanup_policy:
        retention_ms, retention_bytes = config.retention_ms, config.retention_bytes
    excess_bytes = sum(segment.size for segment in segments) - retention_bytes if retention_bytes >= 0 else 0
    for number, segment in enumerate(segments):
        is_active = number == len(segments) - 1
        segment_end_offset = end_offset if is_active else segments[number + 1].base_offset
        if segment_end_offset > high_watermark or segment.size == 0:
            return number
        excess_bytes -= segment.size
        if not (
            (segment_end_offset <= start_offset and not is_active)
            or (retention_bytes >= 0 and excess_bytes >= 0)
            or (retention_ms >= 0 and now_ms - segment.age_reference_ms(ahead_max_ms) > retention_ms)
        ):
            return number
    return len(segments)
