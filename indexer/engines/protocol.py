"""What a build asks of an engine, and an engine of the job it is given."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Iterable, Sequence
from typing import Any, Protocol

from indexer.building.pipeline import Result, Work
from indexer.building.progress import BuildProgress, Counted
from indexer.manifest import ModelRecord
from tpips_model.embedder import Embedder

__all__ = ["Engine", "Job", "MakeEmbedder", "Taken", "model_record"]

# Loads the model; it is sent to every worker.
MakeEmbedder = Callable[[], Embedder]


class Job(Protocol):
    """How tasks become results: a value that can be sent to another process, and the same there.

    Attributes:
        batch_size: How many pictures are embedded at once.
    """

    @property
    def batch_size(self) -> int: ...

    def work(self, task: Any, embedder: Embedder, taken: Container[str]) -> Work:
        """Begin a task; pictures whose key is among ``taken`` are repeats."""
        ...


class Taken(Container[str], Protocol):
    """The keys of the items that an index holds."""

    def among(self, keys: Iterable[str]) -> frozenset[str]:
        """Return those of ``keys`` that it holds."""
        ...


class Engine(Protocol):
    """Turns tasks into results, in order; reads and embeds, and writes nothing."""

    @property
    def model(self) -> ModelRecord:
        """The model that embeds.

        Raises:
            ModelError: It cannot be loaded.
        """
        ...

    def run(
        self, job: Job, tasks: Sequence[Counted], *, taken: Taken, progress: BuildProgress
    ) -> Generator[Result, None, None]:
        """Give each task's result in the order of the tasks, as if they were done one after another.

        Whoever takes a result adds its items' keys to ``taken`` before taking the next, and closes this in the end.

        Args:
            job: How a task becomes a result.
            tasks: The tasks, of different names.
            taken: The keys that the index holds.
            progress: Is moved for each picture.

        Raises:
            TpipsError: What went wrong with a task, once the results of all tasks before it are taken.
        """
        ...

    def close(self) -> None:
        """Let go of what it holds; what is under way is dropped."""
        ...


def model_record(embedder: Embedder) -> ModelRecord:
    """Return what a manifest says of a model."""
    return ModelRecord(
        name=embedder.name,
        fingerprint=embedder.fingerprint,
        dim=embedder.dim,
        prompt_template=embedder.prompt_template,
        recommended_overall_penalty=float(embedder.recommended_overall_penalty),
    )
