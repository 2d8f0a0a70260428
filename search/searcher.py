"""The Searcher: an index, queried."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from indexer import IndexDirectory, IndexDirectoryError
from indexer.item_files import DataRoot, check_given_roots
from search.answer import make_page
from search.device.choice import chosen_devices
from search.hits import Hits
from search.items import Keys
from search.joint_codes import DEFAULT_CODES_MEMORY
from search.live.look import LiveLook, as_look
from search.milvus.address import MilvusError, is_milvus_address
from search.milvus.index import MilvusIndex
from search.milvus.opened import opened_collection
from search.opened_index import OpenedIndex
from search.query_embedder import QueryEmbedder
from search.selection import Where
from search.terms import QueryError, Term, TermLike, finite_number, parse_terms
from tpips_model.aspects import Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.errors import AspectError
from tpips_model.images import ImageLike

__all__ = ["Searcher"]


class Searcher:
    """Finds the items of an index that are similar by the aspects asked for.

    Opening reads the manifest only. Vectors stay on disk; the model is loaded when a query first holds a picture, and
    never for queries by keys. Several threads may query one Searcher at once; they take turns with the model.

    Examples:
        >>> searcher = Searcher.open("index")  # doctest: +SKIP
        >>> searcher.query([("a.jpg", "subject"), ("b.jpg", "color palette", 0.7)], k=20)  # doctest: +SKIP
        <Hits: 20 of 360 items for 1 × a.jpg by subject + 0.7 × b.jpg by color palette>
    """

    def __init__(
        self,
        index: IndexDirectory,
        *,
        model: Embedder | None = None,
        device: str | Sequence[str] | None = None,
        codes_memory: int = DEFAULT_CODES_MEMORY,
    ) -> None:
        """Search an opened index; ``Searcher.open`` is the usual way."""
        self._embedder = QueryEmbedder(index, model)
        self._devices, self._codes_memory = chosen_devices(device), codes_memory
        self._lock = threading.Lock()
        # Queries take it once, so that each sees one version throughout.
        self._opened = self._open(index)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        model: Embedder | None = None,
        data_root: DataRoot | None = None,
        device: str | Sequence[str] | None = None,
        codes_memory: int = DEFAULT_CODES_MEMORY,
    ) -> Searcher:
        """Open an index directory, or what ``tpips-index push`` made of one in Milvus.

        Args:
            path: The directory, or an address such as ``"milvus://localhost:19530/paintings"`` (docs/milvus.md).
            model: Embeds pictures instead of the model that the index names; it must have the same fingerprint.
            data_root: Where the pictures are now, if not where they were indexed; for an index of several sources also
                a mapping from their prefixes. A Milvus collection does not know where they were.
            device: Where exact scans run: by default the CPU; "cuda", "cuda:0,cuda:1" or "auto" for GPUs.
            codes_memory: Bound in bytes on the codes that approximate searches hold in memory, one set for each
                combination of aspects; the set that a query needs is always held.

        Raises:
            IndexDirectoryError: There is no index, or it is damaged or of a newer format version.
            ModelError: ``model`` is not the one that made the index.
            DeviceError: There is no such GPU.
            MilvusError: The collection cannot be reached, or is not a finished push.
        """
        moved = data_root.values() if isinstance(data_root, Mapping) else [] if data_root is None else [data_root]
        for what, given in (("an index", path), *(("the data root", root) for root in moved)):
            if not isinstance(given, (str, os.PathLike)):
                raise IndexDirectoryError(f"{what} must be given as a path, not {type(given).__name__}")
        index: Any  # a collection stands in for a directory
        if is_milvus_address(path):
            if device not in (None, "cpu"):
                raise MilvusError("where Milvus computes is the server's choice; leave out the device")
            check_given_roots(data_root)
            index = MilvusIndex.open(str(path), data_root=data_root)
        else:
            index = IndexDirectory.open(path, data_root=data_root)
        return cls(index, model=model, device=device, codes_memory=codes_memory)

    def refresh(self) -> bool:
        """Go on with the index as it is now, if it has been written to since it was opened.

        Queries that have begun end with the version they began with; those that begin later see the new one as a whole.
        If nothing was written, this costs a look at one file.

        Returns:
            Whether there is a new version.

        Raises:
            IndexDirectoryError: The index is gone or damaged; the version that was opened goes on serving.
        """
        with self._lock:
            before = self._opened.index
            if not before.has_changed():
                return False
            index = before.reopened()
            self._embedder = self._embedder.of_index(index)
            self._opened = self._open(index)
            return True

    def _open(self, index: IndexDirectory) -> OpenedIndex:
        if isinstance(index, MilvusIndex):
            return opened_collection(index, self._embedder)
        return OpenedIndex.of(index, self._embedder, devices=self._devices, codes_memory=self._codes_memory)

    @property
    def opened(self) -> OpenedIndex:
        """The version that is searched, for those who take several looks at it that must agree."""
        return self._opened

    @property
    def index(self) -> IndexDirectory:
        """The index in the version that is searched."""
        return self._opened.index

    def __len__(self) -> int:
        return self.index.live_count

    def __repr__(self) -> str:
        return f"<Searcher: {len(self):,} items by {', '.join(aspect.text for aspect in self.aspects)}>"

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects that can be asked for."""
        return self.index.aspects

    @property
    def keys(self) -> Keys:
        """The items' keys in row order."""
        return self._opened.items.keys

    @property
    def columns(self) -> pa.Schema:
        """The columns that a ``where`` may name, with their types: what the index keeps of an item, and metadata."""
        return self._opened.items.schema

    def query(
        self,
        terms: Iterable[TermLike],
        k: int = 10,
        overall_penalty: float = 0.0,
        exclude_queries: bool = True,
        *,
        where: Where | None = None,
        min_score: float | None = None,
        offset: int = 0,
        dedupe: float | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
        live: int | LiveLook | None = None,
    ) -> Hits:
        """Return the k best items by score = Σ w_i (f(q_i, x | a_i) − λ f(q_i, x | overall)).

        f is the cosine similarity of an item and a term's image under an aspect. Equal scores come in row order.

        Args:
            terms: ``Term`` or tuples (image, aspect) or (image, aspect, weight). An image is a picture or the key of
                an indexed item. Weights may be negative.
            k: How many; fewer come back if there are fewer.
            overall_penalty: λ of the paper (0.3 there), which favours items that are similar by the aspect and
                otherwise different. Terms whose aspect is "overall" have no penalty.
            exclude_queries: Leave out the items that a term's image is: by its key; and every item whose file holds
                the same bytes, or whose vectors are the same under the query's aspects and overall (within 2e-3),
                under whatever key.
            where: Choose from the items for which this is true: a filter such as ``'style = "Cubism" and
                year >= 1900'`` (docs/filters.md) or a pyarrow expression over the columns of ``columns``. The answer
                is the best k of them, however few they are.
            min_score: Leave out hits of a lower score.
            offset: Pass over this many of the best: the page after one of 10 hits has ``offset=10``.
            dedupe: In (0, 1]: of items whose overall vectors have at least this cosine only the best stays, and its
                ``duplicates`` names the others. 0.98 collapses what hardly anyone tells apart.
            exact: ``True`` scans every vector, ``False`` goes by the index's codes, ``None`` chooses by size.
            nprobe: How many of the index's inverted lists a search by the codes looks into (docs/lists.md); by default
                all, and a quarter of them from ten million items on.
            live: Allow aspects that are not indexed, any words at all, and embed so many items under them for this
                query: the likeliest, chosen by the aspects that are indexed. The hits are the best of these, exactly
                scored; ``Hits.live`` tells of how many (docs/live-aspects.md). A ``LiveLook`` also shows progress.

        Raises:
            QueryError: The terms or other arguments make no query, or an image is neither a key nor a file.
            AspectError: An aspect is not indexed, and ``live`` is not given; the message names those that are and the
                command that adds it.
            ModelError: The model that made the index cannot be had.
            ImageError: A picture cannot be read.
        """
        page, look = make_page(k, offset, min_score, dedupe, exclude_queries, exact, nprobe), as_look(live)
        penalty = finite_number(overall_penalty, "the overall penalty")
        opened = self._opened
        prepared = opened.preparer.terms(parse_terms(terms), penalty, live=look is not None)
        return opened.hits([prepared], page, penalty, where, look)[0]

    def query_batch(
        self,
        queries: Iterable[Iterable[TermLike]],
        k: int = 10,
        overall_penalty: float = 0.0,
        exclude_queries: bool = True,
        *,
        where: Where | None = None,
        min_score: float | None = None,
        offset: int = 0,
        dedupe: float | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
        live: int | LiveLook | None = None,
    ) -> list[Hits]:
        """Return what ``query`` gives for each of many queries, in one pass over the index.

        Each distinct picture is embedded once, together with the others, which changes its vectors by no more than
        the model's rounding.

        Args:
            queries: The terms of each query. All other arguments are as for ``query`` and hold for every query.

        Raises:
            TpipsError: As ``query``; the message tells which query cannot be read.
        """
        page, look = make_page(k, offset, min_score, dedupe, exclude_queries, exact, nprobe), as_look(live)
        penalty = finite_number(overall_penalty, "the overall penalty")
        if isinstance(queries, (str, bytes, Term)) or not isinstance(queries, Iterable):
            raise QueryError(f"queries must be a list of lists of terms, not {type(queries).__name__}")
        opened, prepared = self._opened, []
        for number, terms in enumerate(queries, start=1):
            try:
                prepared.append(opened.preparer.terms(parse_terms(terms), penalty, live=look is not None))
            except (QueryError, AspectError) as error:
                raise type(error)(f"query {number} of the batch: {error}") from error
        return opened.hits(prepared, page, penalty, where, look)

    def similar(
        self,
        image: ImageLike,
        aspect: AspectLike,
        k: int = 10,
        overall_penalty: float | None = None,
        exclude_queries: bool = True,
        *,
        where: Where | None = None,
        min_score: float | None = None,
        offset: int = 0,
        dedupe: float | None = None,
        exact: bool | None = None,
        nprobe: int | None = None,
        live: int | LiveLook | None = None,
    ) -> Hits:
        """Return the k items most similar to one image by one aspect (the paper's aspect-conditioned retrieval).

        Args:
            image: A picture or the key of an indexed item.
            aspect: The aspect.
            k: How many.
            overall_penalty: λ; by default what the index's model recommends (0.3 for TPIPS).
            exclude_queries: Leave out the image itself. This and all other arguments are as for ``query``.

        Raises:
            TpipsError: As ``query``.
        """
        if overall_penalty is None:
            overall_penalty = self.index.manifest.model.recommended_overall_penalty
        return self.query(
            [Term(image, aspect)],
            k,
            overall_penalty,
            exclude_queries,
            where=where,
            min_score=min_score,
            offset=offset,
            dedupe=dedupe,
            exact=exact,
            nprobe=nprobe,
            live=live,
        )
