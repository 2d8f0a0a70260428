"""Following the index: a server answers from its newest version, and goes on with the last good one."""

from __future__ import annotations

import asyncio

from apps.server.faults import logger
from apps.server.service import Service
from apps.server.warming import Warming
from tpips_model.errors import TpipsError

__all__ = ["follow"]

SECONDS_BETWEEN = 2.0


async def follow(service: Service, warming: Warming) -> None:
    """Look every now and then, until cancelled, whether the index has been written to, and take the new version."""
    told = ""
    while True:
        await asyncio.sleep(SECONDS_BETWEEN)
        try:
            if await service.search.run(service.searcher.refresh, limited=False):
                await warming.load_index()
                logger.info("the index has %s items now", f"{len(service.searcher):,}")
            told = ""
        except TpipsError as error:
            if str(error) != told:  # once, not every two seconds
                logger.error("the index as it is now cannot be used, and the last version goes on serving: %s", error)
                told = str(error)
