"""The commands of tpips-index that need no searching, one file each."""
