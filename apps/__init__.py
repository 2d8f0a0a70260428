"""Applications on top of the search engine."""

__all__: list[str] = []
