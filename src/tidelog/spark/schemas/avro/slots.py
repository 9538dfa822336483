"""What Python and the compiled loop agree on: instructions, columns, and the slots of a call."""

# -- instructions: WORDS numbers each: operation, column, and up to five arguments ---------

WORDS = 8

END = 0  # of the value
VARINT = 1  # store, whether it must fit 32 bits, factor (negative: divisor)
FLOAT = 2  # store
DOUBLE = 3  # store
BOOLEAN = 4  # store
BYTES = 5  # store, size (-1: in front of the bytes), whether it must be UTF-8
DECIMAL = 6  # store, size (-1: in front), high and low half of the first number with too many digits
ENUM = 7  # store, number of symbols, position of their table in the program (-1 there: no such symbol)
UNION = 8  # number of branches, position of their table of instructions (-1 there: does not fit)
JUMP = 9  # instruction
NULLS = 10  # first column, end column, level: each gets a row without a value
STRUCT = 11  # the column has a value in this row
LIST = 12  # store, number of the list, child's level, instruction after it, smallest size of an item
LOOP = 13  # the list's instruction, child's level (-1: not stored)

# -- columns: COLUMN_WORDS numbers each -----------------------------------------------------

COLUMN_WORDS = 8
C_LEVEL = 0  # whose number of rows it has: 0 for values, others for the items of a list
C_KIND = 1
C_VALUES = 2  # address; of text and bytes: of their content
C_VALID = 3  # address of one byte a row; 0: every row has a value
C_ENDS = 4  # address, for text, bytes and lists
C_SIZE = 5  # bytes of content so far
C_CHILD_LEVEL = 6  # of a list

# Kinds of columns.
NOTHING, BOOL, INT32, INT64, FLOAT32, FLOAT64, CONTENT, DECIMAL128, SYMBOL, RECORD, ITEMS = range(11)
WIDTHS = {BOOL: 1, INT32: 4, INT64: 8, FLOAT32: 4, FLOAT64: 8, DECIMAL128: 16, SYMBOL: 4}

# -- the call ------------------------------------------------------------------------------

PROGRAM = 0
COLUMNS = 1
COLUMN_COUNT = 2
LEVELS = 3  # address of the number of rows of each level
LEVEL_COUNT = 4
LISTS = 5  # address of the number of items that are left in each list
STARTS = 6  # address of the address of each value; -1: no value
ENDS = 7
ROWS = 8
BAD = 9  # address of one byte a row: the value does not match
SAVED = 10  # room for as many numbers as there are columns and levels
DATA_END = 11  # address after the last byte of all values
FILL = 12  # 0: measure and check; 1: write what was measured
CALL_SLOTS = 13

PADDING_BYTES = 32  # content is copied in whole chunks
EMPTY_ITEMS_MAX = 10_000  # items of no bytes in one list: their number costs the writer nothing
