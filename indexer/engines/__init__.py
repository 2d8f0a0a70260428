"""Where shards are embedded: in this process, in several on this machine, or on a Ray cluster."""

from indexer.engines.protocol import Engine
from indexer.engines.registry import ENGINES, open_engine

__all__ = ["ENGINES", "Engine", "open_engine"]
