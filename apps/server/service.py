"""What all requests share: the index, the model, the threads and the counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from apps.server.lanes import Lane
from apps.server.measurements import Measurements
from apps.server.settings import ServerSettings
from apps.shared_embedder import SharedEmbedder
from apps.thumbnails import Thumbnails
from indexer import IndexDirectory
from search import Searcher
from tpips_model.embedder import Embedder

__all__ = ["Service"]

# The model's threads do the work within; a second picture at once would only take their time.
EMBED_THREADS = 1
# Each keeps the model busy for seconds.
MAX_LIVE_WAITING = 8


@dataclass(frozen=True, eq=False)
class Service:
    """One of each for all requests; nothing in it belongs to one.

    Attributes:
        settings: The limits.
        searcher: The index, queried.
        embedder: The model.
        thumbnails: Pictures in the sizes that were asked for.
        search: Queries by key.
        embed: Queries with pictures that the model must see.
        live: Queries by words that are not indexed.
        pictures: The index's pictures.
        measurements: What ``/metrics`` tells.
    """

    settings: ServerSettings
    searcher: Searcher
    embedder: Embedder
    thumbnails: Thumbnails
    search: Lane
    embed: Lane
    live: Lane
    pictures: Lane
    measurements: Measurements

    @classmethod
    def of_index(
        cls,
        index: IndexDirectory,
        settings: ServerSettings,
        *,
        embedder: Embedder | None = None,
        device: str | None = None,
    ) -> Service:
        """Return the service of an opened index.

        Args:
            index: The index.
            settings: The limits.
            embedder: Embeds pictures instead of the model that the index names.
            device: As ``Searcher.open`` takes it.

        Raises:
            ModelError: ``embedder`` is not the one that made the index.
            DeviceError: There is no such GPU.
        """
        model = embedder or cast(Embedder, SharedEmbedder(index.manifest.model))
        search = Lane(
            "search", threads=settings.search_threads, waiting=settings.waiting, seconds=settings.search_seconds
        )
        embed = Lane("embed", threads=EMBED_THREADS, waiting=settings.waiting, seconds=settings.embed_seconds)
        live = Lane(
            "live",
            threads=EMBED_THREADS,
            waiting=min(settings.waiting, MAX_LIVE_WAITING),
            seconds=settings.live_seconds,
        )
        pictures = Lane(
            "pictures", threads=settings.picture_threads, waiting=settings.waiting, seconds=settings.search_seconds
        )
        searcher = Searcher(index, model=model, device=device)
        measurements = Measurements(items=lambda: len(searcher), lanes=(search, embed, live, pictures))
        return cls(
            settings=settings,
            searcher=searcher,
            embedder=model,
            thumbnails=Thumbnails(),
            search=search,
            embed=embed,
            live=live,
            pictures=pictures,
            measurements=measurements,
        )

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """All lanes."""
        return (self.search, self.embed, self.live, self.pictures)
