"""The registry of engines, and how a build picks one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from indexer.building.build_config import BuildConfig
from indexer.engines.in_process import InProcess
from indexer.engines.local import LocalPool
from indexer.engines.protocol import Engine, MakeEmbedder
from indexer.engines.worker_engine import WorkerEngine

__all__ = ["ENGINES", "open_engine"]


@contextmanager
def open_engine(config: BuildConfig, make_embedder: MakeEmbedder, *, loads: bool) -> Iterator[Engine]:
    """Open the engine that a build asks for, for as long as the block runs.

    Args:
        config: The build.
        make_embedder: Loads the model.
        loads: Whether that is a model of a name, which may use GPUs, and not one that is there already.

    Raises:
        ModelError: The model cannot be loaded.
        BuildError: The engine cannot be had.
    """
    engine = ENGINES[config.engine](config, make_embedder, loads)
    try:
        yield engine
    finally:
        engine.close()


def _open_local(config: BuildConfig, make_embedder: MakeEmbedder, loads: bool) -> Engine:
    gpus = _gpus() if loads and config.workers != 1 else ()
    workers = config.workers or max(1, len(gpus))
    if workers == 1:
        return InProcess(make_embedder)
    return WorkerEngine(LocalPool(make_embedder, workers=workers, gpus=gpus), workers)


def _open_ray(config: BuildConfig, make_embedder: MakeEmbedder, loads: bool) -> Engine:
    from indexer.engines.ray_engine import RayPool

    pool = RayPool(make_embedder, workers=config.workers, address=config.ray_address)
    return WorkerEngine(pool, pool.workers)


ENGINES: dict[str, Callable[[BuildConfig, MakeEmbedder, bool], Engine]] = {"local": _open_local, "ray": _open_ray}


def _gpus() -> tuple[str, ...]:
    """Return the names of the GPUs that this process may use."""
    import torch  # which the model loads anyway

    count = torch.cuda.device_count()
    given = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return tuple(given[:count] if given else map(str, range(count)))
