"""Where pictures come from: one source a file, and the registry that ``--data`` picks from."""

from indexer.sources.registry import SOURCES, open_source
from indexer.sources.source import BadSample, Indexed, Sample, Shard, Source, SourceError

__all__ = ["SOURCES", "BadSample", "Indexed", "Sample", "Shard", "Source", "SourceError", "open_source"]
