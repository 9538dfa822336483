"""Arguments and results of the writer's loops: numbered slots of one array of 64-bit numbers.

The arrays behind the addresses hold 64-bit numbers, except data (bytes) and validity (a byte for each row).
"""

# -- a column of bytes: where it begins, and four places from there ---------------------

OFFSETS = 0  # address; 0: the column is not there, all rows are null
DATA = 1
DATA_END = 2
VALID = 3  # address; 0: no row is null
COLUMN_PLACES = 4

KEY = 0
VALUE = 4
HEADER_KEY = 8
HEADER_VALUE = 12

# -- other columns, as addresses; 0: not there -------------------------------------------

HEADERS = 16  # offsets into the two columns of headers
TOPICS = 17  # index of the topic, -1: null; not there: all rows are of topic 0
PARTITIONS = 18  # -1: by the key
TIMESTAMPS = 19  # milliseconds; not there: all have NOW

# -- partitions of all topics, one after the other: slots ---------------------------------

FIRST_SLOT = 20  # for each topic: the slot of its partition 0
PARTITION_COUNT = 21  # for each topic
STICKY = 22  # for each topic: the partition of records without a key
STICKY_BYTES = 23  # for each topic: how much went there since the last change
STICKY_BYTES_MAX = 24
CHOSEN = 25  # for each row: its slot, or minus the reason why it has none
OPEN_CHUNK = 26  # for each slot, -1: none

# -- chunks: room for one batch each --------------------------------------------------------

ARENA = 27
CHUNK_BYTES = 28
USED = 29  # for each chunk: bytes, header included
COUNT = 30  # for each chunk: records
BASE_TIMESTAMP = 31  # for each chunk: of its first record
MAX_TIMESTAMP = 32
SLOT = 33  # for each chunk
FREE = 34  # a stack of chunks
SEALED = 35  # a queue of chunks
FREE_COUNT = 36
SEALED_COUNT = 37

# -- the call -------------------------------------------------------------------------------

START = 38  # first row; afterwards: the first that was not done
END = 39
NOW = 40
PLACES = 41

# -- why a row was not done ------------------------------------------------------------------

DONE = 0
NO_ROOM = 1
TOO_LARGE = 2  # one record needs more than a whole chunk
NO_TOPIC = 3
NO_SUCH_PARTITION = 4
HEADER_WITHOUT_KEY = 5

SLACK_BYTES = 96
"""Left free in each chunk: the numbers of a record, and copies in whole steps."""
