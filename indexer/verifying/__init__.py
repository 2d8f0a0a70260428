"""Everything about an index that can be checked."""
