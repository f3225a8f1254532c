"""The numbers by which tables of blocks and the compiled loops that read them understand each other."""

#: What a gather returns, else the number of a block that is not in the table.
DONE, OUTSIDE, OTHER, NO_LINE = -1, -2, -3, -4

# What is known of a block, by column of its record.
BUFFER = 0  # the address of its first byte
STARTS = 1  # the address of int64[rows]: the byte at which each row begins; of the first one where that is enough
OFFSETS = 2  # the address of int64[rows + 1]: items before each row, counted from any number on; 0 where ITEMS is set
ROWS = 3
FLAT = 4  # 1 where each row begins where the one before it ends
ITEMS = 5  # of every row, where rows have one length, above 0, and one distance; else 0
STRIDE = 6  # that distance in bytes
KIND = 7  # of the items: their bytes, + SIGNED, + SWAPPED
NUM_COLUMNS = 8

# What a kind is made of: an item's bytes, and these.
SIGNED, SWAPPED = 16, 32
