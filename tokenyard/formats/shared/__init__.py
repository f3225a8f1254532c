"""What several formats share: runs of bytes, blocks of rows, codecs, and how other people's columns are read."""
