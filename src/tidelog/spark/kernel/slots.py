"""Arguments and results of the compiled loops: numbered slots of one array of 64-bit numbers.

One array in and out keeps a call cheap, and the machine code free of anything specific to one version of
Python or numpy.
"""

# -- the table of batches: one row of TABLE_COLUMNS numbers each -----------------------

POSITION = 0  # in the fetched bytes
SIZE = 1  # header included
BASE_OFFSET = 2
LAST_OFFSET = 3
ATTRIBUTES = 4
BASE_TIMESTAMP = 5  # milliseconds
MAX_TIMESTAMP = 6
PRODUCER_ID = 7
COUNT = 8  # of records
CRC = 9
PAYLOAD_START = 10  # address of the records, uncompressed
PAYLOAD_END = 11  # exclusive
TABLE_COLUMNS = 12

# -- outline: fetched bytes to the table -----------------------------------------------

OUTLINE_DATA = 0
OUTLINE_SIZE = 1
OUTLINE_TABLE = 2
OUTLINE_ROWS = 3  # room in the table
OUTLINE_POSITION = 4  # where to start; afterwards: where it ended
OUTLINE_STOP = 5  # results from here on: why it ended
OUTLINE_KINDS = 6  # the attributes of all batches, or-ed
OUTLINE_RECORDS = 7  # the number of records they claim
OUTLINE_SLOTS = 8

COMPLETE, TABLE_FULL, BAD_MAGIC, BAD_SIZE = 0, 1, 2, 3

# -- fill: the table's records to columns ----------------------------------------------

TABLE = 0
BATCHES = 1
START_OFFSET = 2
END_OFFSET = 3  # exclusive
WANTED = 4  # bits
OFFSETS = 5  # addresses from here on
TIMESTAMPS = 6
TYPES = 7
KEY_ENDS = 8
KEY_VALID = 9
KEY_BYTES = 10
VALUE_ENDS = 11
VALUE_VALID = 12
VALUE_BYTES = 13
HEADER_SPANS = 14
KEY_SIZE = 15  # results from here on
KEY_NULLS = 16
VALUE_SIZE = 17
VALUE_NULLS = 18
FILL_SLOTS = 19

WANT_KEY, WANT_VALUE, WANT_OFFSET, WANT_TIMESTAMP, WANT_TYPE, WANT_HEADERS = 1, 2, 4, 8, 16, 32

# -- headers of records: measured, then filled -----------------------------------------

SPANS = 0  # per row: address and end of its headers
SPAN_ROWS = 1
LIST_ENDS = 2
LIST_VALID = 3
NAME_ENDS = 4
NAME_BYTES = 5
CONTENT_ENDS = 6
CONTENT_VALID = 7
CONTENT_BYTES = 8
ENTRIES = 9  # results from here on
NAME_SIZE = 10
CONTENT_SIZE = 11
CONTENT_NULLS = 12
EMPTY_LISTS = 13
HEADER_SLOTS = 14

# -- pack: one byte each to one bit each -----------------------------------------------

PACK_BYTES = 0
PACK_COUNT = 1
PACK_BITS = 2
PACK_SLOTS = 3

TIMESTAMP_MS_MAX = (2**63 - 1) // 1000  # that fits into Spark's microseconds

PADDING_BYTES = 64
"""Room after every buffer: copies use whole chunks, and a varint may be read past the end."""
