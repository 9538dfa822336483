"""How a partition's directory is laid out on disk: Kafka's file names, so that Kafka's tools can read it.

============================== ==========================================================================
``<base offset, 20 digits>``   ``.log`` record batches, ``.index`` offset index, ``.timeindex`` time index
``….txnindex``                 the aborted transactions of that segment, if any
``….snapshot``                 the state of idempotent producers before that offset
``….start``                    nothing before that offset is readable (not Kafka's; its tools ignore it)
``….clean``                    everything before that offset was compacted (likewise)
``….dense``                    from that offset on, no offset is missing between two batches (likewise)
``….deleted``                  out of the log, removed after ``file.delete.delay.ms``
``….cleaned``                  compaction is still writing it: worthless after a crash
``….swap``                     compaction finished it: it replaces its originals, also after a crash
``leader-epoch-checkpoint``    which leader epoch began at which offset
``partition.metadata``         the topic's id
``damage``                     records are missing, and the controllers may not know (not Kafka's)
============================== ==========================================================================
"""

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SNAPSHOT_SUFFIX = ".snapshot"
START_SUFFIX = ".start"
CLEAN_SUFFIX = ".clean"
DENSE_SUFFIX = ".dense"
ABORTED_SUFFIX = ".txnindex"
INDEX_SUFFIXES = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_SUFFIX)
SEGMENT_SUFFIXES = (*INDEX_SUFFIXES, LOG_SUFFIX)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
TEMPORARY_SUFFIX = ".tmp"

EPOCHS_FILE = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE = "partition.metadata"
DAMAGE_FILE = "damage"

_DIGITS = 20


def segment_path(directory: str, base_offset: int) -> str:
    """Path of a segment's files, or of a snapshot, without their suffix."""
    return f"{directory}/{base_offset:0{_DIGITS}d}"


def base_offset_of(name: str, suffix: str) -> int | None:
    """The base offset in ``name`` if it is such a file and ends in ``suffix``."""
    if not name.endswith(suffix):
        return None
    digits = name[: -len(suffix)]
    if len(digits) == _DIGITS and digits.isascii() and digits.isdigit():
        return int(digits)
    return None
