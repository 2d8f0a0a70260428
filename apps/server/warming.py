"""Loading at the start what the first requests would otherwise wait for."""

from __future__ import annotations

from PIL import Image

from apps.server.faults import logger
from apps.server.service import Service
from search import Term
from tpips_model.errors import TpipsError

__all__ = ["Warming"]

_PICTURE_SIDE = 64


class Warming:
    """How far the loading at the start is.

    Attributes:
        fault: Why the server is not ready, or ``None`` once it is.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self.fault: str | None = "the server is starting"

    async def load_index(self) -> None:
        """Read what every query needs.

        Raises:
            TpipsError: The index is damaged.
        """
        await self._service.search.run(self._warm_index, limited=False)

    async def load_model(self) -> None:
        """Load the model, if the settings say so; queries by key are answered meanwhile."""
        if self._service.settings.preload:
            self.fault = "the model is being loaded"
            try:
                await self._service.embed.run(self._warm_model, limited=False)
            except TpipsError as error:
                logger.error("%s", error)
                self.fault = "the model cannot be loaded; the server's log says why"
                return
        self.fault = None

    def stop(self) -> None:
        """Say that the server takes no more work."""
        self.fault = "the server is shutting down"

    def _warm_index(self) -> None:
        searcher = self._service.searcher
        if len(searcher) and searcher.aspects:
            searcher.query([Term(next(iter(searcher.keys)), aspect) for aspect in searcher.aspects], k=1)

    def _warm_model(self) -> None:
        picture = Image.new("RGB", (_PICTURE_SIDE, _PICTURE_SIDE))
        self._service.embedder.embed([picture], self._service.searcher.aspects)
