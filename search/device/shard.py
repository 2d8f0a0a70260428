"""One device's range of rows: what it keeps, what it is sent, and its candidates for the best."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from search.device.candidates import Best, Found
from search.device.choice import DeviceError
from search.device.products import default_memory, opened_device, products
from search.device.queries import HalfQueries
from search.vectors import StoredVectors

if TYPE_CHECKING:
    import torch

__all__ = ["DeviceShard"]

# A piece, the unit of copying and keeping, is this much of one aspect: its product outlasts the launch of its kernels.
PIECE_BYTES = 64 << 20
# ... and no more rows than this, so that the scores of a full batch stay small.
PIECE_ROWS = 1 << 17
# As many scores as this are compared at once.
SCORE_BYTES = 256 << 20
# How many threads read ahead, each into a buffer of one piece.
READERS = 4
# If fewer of a piece's rows are selected, they are gathered; otherwise all are multiplied and their scores gathered.
GATHER_BELOW = 0.25


@dataclass(frozen=True, eq=False)
class _Piece:
    """Successive rows.

    Attributes:
        start: The first row.
        count: How many there are.
        chosen: int64, the selected ones, from ``start`` on; None if all are.
    """

    start: int
    count: int
    chosen: NDArray[np.int64] | None

    @property
    def columns(self) -> int:
        """How many scores the piece has."""
        return self.count if self.chosen is None else len(self.chosen)

    @property
    def sparse(self) -> bool:
        """Whether its selected rows are gathered before they are multiplied."""
        return self.columns < GATHER_BELOW * self.count


_Job = tuple[str, _Piece]


class DeviceShard:
    """The rows from ``start`` to ``stop`` on one device.

    Args:
        store: The whole index.
        device: torch's name for the device: "cuda:0", or "cpu".
        start: The first row.
        stop: The row after the last.
        memory: How many bytes of vectors the device may keep; by default ``default_memory``.

    Attributes:
        memory: That many.
        aspect_bytes: How many bytes the vectors of one aspect take here.
    """

    def __init__(self, store: StoredVectors, device: str, *, start: int, stop: int, memory: int | None) -> None:
        self._store = store
        self._device = opened_device(device)
        self._start = start
        self._stop = stop
        self.aspect_bytes = 2 * store.dim * (stop - start)
        self.memory = default_memory(self._device) if memory is None else memory
        self._kept: dict[tuple[str, int], torch.Tensor] = {}  # least recently used first
        self._buffers: list[torch.Tensor | None] = [None] * READERS
        self._piece_rows = max(1, min(PIECE_ROWS, PIECE_BYTES // (2 * store.dim), stop - start))
        # The buffers and the device's memory serve one scan at a time.
        self._lock = threading.Lock()

    @property
    def cached_bytes(self) -> int:
        """How many bytes of vectors the device keeps now."""
        return sum(tensor.nbytes for tensor in list(self._kept.values()))

    def scan(self, queries: HalfQueries, counts: NDArray[np.int64], rows: NDArray[np.int64] | None) -> Found:
        """Return rows of this range, among which are those of the best that lie in it and all that tie with them.

        Args:
            queries: B queries.
            counts: int64 (B,), how many of all rows each wants, at least 1.
            rows: int64, ascending: the rows of the whole index to choose from; by default all.

        Raises:
            IndexDirectoryError: Stored vectors are not finite.
            DeviceError: The device's memory does not suffice.
        """
        import torch

        with self._lock, torch.inference_mode():
            try:
                return self._scan(queries, counts, rows)
            except torch.OutOfMemoryError as error:
                self._kept.clear()
                raise DeviceError(
                    f"the memory of {self._device} does not suffice: vectors may take {self.memory:,} bytes of it, "
                    f"and scores and buffers come on top. Give it fewer (memory=), or end other programs on it. {error}"
                ) from error

    def _scan(self, queries: HalfQueries, counts: NDArray[np.int64], rows: NDArray[np.int64] | None) -> Found:
        import torch

        if rows is not None:
            rows = rows[slice(*np.searchsorted(rows, (self._start, self._stop)))]
        pieces = list(self._pieces(rows))
        halves = {slug: torch.from_numpy(array).to(self._device) for slug, array in queries.halves.items()}
        owners = {slug: torch.from_numpy(array).to(self._device) for slug, array in queries.owners.items()}
        best = Best(torch.from_numpy(counts).to(self._device), torch.from_numpy(queries.slack).to(self._device))
        done = 0
        with closing(self._tensors([(slug, piece) for piece in pieces for slug in halves])) as tensors:
            for segment in _segments(pieces, max(1, SCORE_BYTES // (4 * queries.count))):
                width = sum(piece.columns for piece in segment)
                scores = torch.zeros((queries.count, width), dtype=torch.float32, device=self._device)
                column = 0
                for piece in segment:
                    part = scores[:, column : column + piece.columns]
                    for slug, half in halves.items():
                        part.index_add_(0, owners[slug], _scores(half, next(tensors), piece))
                    column += piece.columns
                best.add(scores, done)
                done += width
        found = best.found()
        chosen = found.rows + self._start if rows is None else rows[found.rows]
        return Found(found.queries, chosen, found.scores)

    def _pieces(self, rows: NDArray[np.int64] | None) -> Iterator[_Piece]:
        """Yield the pieces that hold rows to be scored."""
        for start in range(self._start, self._stop, self._piece_rows):
            count = min(self._piece_rows, self._stop - start)
            if rows is None:
                yield _Piece(start, count, None)
                continue
            first, last = np.searchsorted(rows, (start, start + count))
            if first < last:
                yield _Piece(start, count, None if last - first == count else rows[first:last] - start)

    def _tensors(self, jobs: Sequence[_Job]) -> Generator[torch.Tensor, None, None]:
        """Yield each job's rows on the device, float16: all of the piece, or only the chosen if they are sparse."""
        import torch

        needed = {(slug, piece.start) for slug, piece in jobs}
        absent = iter([job for job in jobs if (job[0], job[1].start) not in self._kept])
        with ThreadPoolExecutor(READERS, thread_name_prefix="device-reader") as pool:
            # A buffer goes to the job that is its number of buffers later, so that none waits for one behind it.
            ahead: deque[Future[torch.Tensor]] = deque()
            for number, job in zip(range(READERS), absent, strict=False):
                ahead.append(pool.submit(self._read, job, number))
            taken = 0
            for slug, piece in jobs:
                key = (slug, piece.start)
                if key in self._kept:
                    tensor = self._kept[key] = self._kept.pop(key)
                    yield tensor
                    continue
                host = ahead.popleft().result()
                tensor = torch.empty(host.shape, dtype=torch.float16, device=self._device)
                # Waits for the copy, while the readers fill the other buffers. The products before it, a hundredth of
                # a copy's time, need no stream of their own.
                tensor.copy_(host)
                if (following := next(absent, None)) is not None:
                    ahead.append(pool.submit(self._read, following, taken % READERS))
                taken += 1
                if not piece.sparse:
                    self._keep(key, tensor, needed)
                yield tensor

    def _read(self, job: _Job, buffer: int) -> torch.Tensor:
        """Return the rows of a job in a buffer on the host."""
        import torch

        slug, piece = job
        whole = self._buffers[buffer]
        if whole is None:
            shape, pinned = (self._piece_rows, self._store.dim), self._device.type == "cuda"
            whole = self._buffers[buffer] = torch.empty(shape, dtype=torch.float16, pin_memory=pinned)
        if piece.chosen is not None and piece.sparse:
            out = whole[: piece.columns]
            self._store.gather_halves(slug, piece.chosen + piece.start, out.numpy())
        else:
            out = whole[: piece.count]
            self._store.copy_block(slug, piece.start, out.numpy())
        return out

    def _keep(self, key: tuple[str, int], tensor: torch.Tensor, needed: set[tuple[str, int]]) -> None:
        """Keep a piece if there is room, or room can be made by dropping what this scan does not need."""
        # Dropping what it does need would, when the data are larger than the memory, drop everything before its use.
        free = self.memory - self.cached_bytes - tensor.nbytes
        for other in [key for key in self._kept if key not in needed]:
            if free >= 0:
                break
            free += self._kept.pop(other).nbytes
        if free >= 0:
            self._kept[key] = tensor


def _scores(queries: torch.Tensor, rows: torch.Tensor, piece: _Piece) -> torch.Tensor:
    """Return the products, float32 (B, columns), with a piece's selected rows."""
    import torch

    if piece.chosen is None or len(rows) != piece.count:
        return products(queries, rows)
    chosen = torch.from_numpy(piece.chosen).to(rows.device)
    if piece.sparse:
        return products(queries, rows.index_select(0, chosen))
    return products(queries, rows).index_select(1, chosen)


def _segments(pieces: Sequence[_Piece], columns: int) -> Iterator[list[_Piece]]:
    """Yield successive pieces together, as many as have at most this many columns, but at least one."""
    segment: list[_Piece] = []
    for piece in pieces:
        if segment and sum(each.columns for each in segment) + piece.columns > columns:
            yield segment
            segment = []
        segment.append(piece)
    if segment:
        yield segment
