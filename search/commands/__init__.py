"""The commands of tpips-index that search, one file each."""
