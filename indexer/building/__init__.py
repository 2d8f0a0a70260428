"""From shards to parts."""
