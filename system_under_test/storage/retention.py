"""Which segments a log may let go: those wholly below the high watermark and too old, too much, or before its start."""

from __future__ import annotations

from collections.abc import Sequence

from system_under_test.storage.config import LogConfig
from system_under_test.storage.segment import Segment


def segments_to_delete(
    segments: Sequence[Segment],
    config: LogConfig,
    start_offset: int,
    end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> tuple[int, list[str]]:
    """How many, from the oldest, and why. The active segment is among them only when it holds something."""
    excess_bytes = sum(each.size for each in segments) - config.retention_bytes
    reasons: list[str] = []
    count = 0
    for number, segment in enumerate(segments):
        is_active = number + 1 == len(segments)
        segment_end = end_offset if is_active else segments[number + 1].base_offset
        if segment_end > high_watermark or (is_active and segment.size == 0):
            break
        reason = None
        if segment_end <= start_offset and not is_active:
            reason = "below the log's start"
        elif config.deletes_old_segments:
            if 0 <= config.retention_ms < now_ms - _newest_ms(segment):
                reason = "retention.ms"
            elif config.retention_bytes >= 0 and excess_bytes >= segment.size:
                reason = "retention.bytes"
        if reason is None:
            break
        if reason not in reasons:
            reasons.append(reason)
        excess_bytes -= segment.size
        count += 1
    return count, reasons


def _newest_ms(segment: Segment) -> int:
    """Records without timestamps are as old as this broker's opening of their segment."""
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
