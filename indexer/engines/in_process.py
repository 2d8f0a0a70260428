"""The engine of one process: its threads read and decode while it embeds."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing

from indexer.building.pipeline import Result, embedded
from indexer.building.progress import BuildProgress, Counted
from indexer.engines.protocol import Job, MakeEmbedder, Taken, model_record
from indexer.engines.threads import cores, decode_threads
from indexer.manifest import ModelRecord

__all__ = ["InProcess"]


class InProcess:
    """Embeds in this process.

    Args:
        make_embedder: Loads the model.
    """

    def __init__(self, make_embedder: MakeEmbedder) -> None:
        self._embedder = make_embedder()

    @property
    def model(self) -> ModelRecord:
        """The model that embeds."""
        return model_record(self._embedder)

    def run(
        self, job: Job, tasks: Sequence[Counted], *, taken: Taken, progress: BuildProgress
    ) -> Generator[Result, None, None]:
        """Give each task's result; see ``Engine.run``."""
        works = (job.work(task, self._embedder, taken) for task in tasks)
        threads = decode_threads(cores())

        def advance(name: str, read: int | None, count: int, embedded: bool) -> None:
            progress.advance(name, read, count)

        results = embedded(works, self._embedder, batch_size=job.batch_size, threads=threads, advance=advance)
        with closing(results):
            for task, result in zip(tasks, results, strict=True):
                progress.end(task)
                yield result

    def close(self) -> None:
        """Nothing is held."""
