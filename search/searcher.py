"""The Searcher: an index, queried."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa

from indexer import IndexDirectory, IndexDirectoryError
from search.answer import Answer, Answerer, Page, make_page
from search.device_choice import chosen_devices
from search.engine import Engine
from search.exact import exact_scores
from search.hits import Hit, Hits, QueryFacts, QueryTerm
from search.items import Items, Keys
from search.joint_codes import DEFAULT_CODES_MEMORY
from search.prepared_query import PreparedQuery, PreparedTerm, QueryPreparer
from search.query_embedder import QueryEmbedder
from search.selection import Selection, Selections, Where
from search.terms import QueryError, Term, TermLike, finite_number, parse_terms
from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL, Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.errors import AspectError
from tpips_model.images import ImageLike

__all__ = ["Searcher"]

# How many items tell how an index's scores are spread.
SAMPLE = 10_000


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
        embedder = QueryEmbedder(index, model)
        self.index = index
        self._items = Items(index)
        self._store = StoredVectors.of_index(index)
        self._selections = Selections(self._items)
        self._preparer = QueryPreparer(index, self._items, self._store, embedder)
        engine = Engine(self._store, index, devices=chosen_devices(device), codes_memory=codes_memory)
        self._answerer = Answerer(engine, self._store, self._items, index)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        model: Embedder | None = None,
        data_root: str | os.PathLike[str] | None = None,
        device: str | Sequence[str] | None = None,
        codes_memory: int = DEFAULT_CODES_MEMORY,
    ) -> Searcher:
        """Open an index directory.

        Args:
            path: The directory.
            model: Embeds pictures instead of the model that the index names; it must have the same fingerprint.
            data_root: Where the pictures are now, if not where they were indexed.
            device: Where exact scans run: by default the CPU; "cuda", "cuda:0,cuda:1" or "auto" for GPUs.
            codes_memory: Bound in bytes on the codes that approximate searches hold in memory, one set for each
                combination of aspects; the set that a query needs is always held.

        Raises:
            IndexDirectoryError: There is no index, or it is damaged or of a newer format version.
            ModelError: ``model`` is not the one that made the index.
            DeviceError: There is no such GPU.
        """
        for what, given in (("an index", path), ("the data root", data_root if data_root is not None else "")):
            if not isinstance(given, (str, os.PathLike)):
                raise IndexDirectoryError(f"{what} must be given as a path, not {type(given).__name__}")
        index = IndexDirectory.open(path, data_root=data_root)
        return cls(index, model=model, device=device, codes_memory=codes_memory)

    def __len__(self) -> int:
        return self.index.rows

    def __repr__(self) -> str:
        return f"<Searcher: {len(self):,} items by {', '.join(aspect.text for aspect in self.aspects)}>"

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspects that can be asked for."""
        return self.index.aspects

    @property
    def keys(self) -> Keys:
        """The items' keys in row order."""
        return self._items.keys

    @property
    def columns(self) -> pa.Schema:
        """The columns that a ``where`` may name, with their types: what the index keeps of an item, and metadata."""
        return self._items.schema

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

        Raises:
            QueryError: The terms or other arguments make no query, or an image is neither a key nor a file.
            AspectError: An aspect is not indexed; the message names those that are and the command that adds it.
            ModelError: The model that made the index cannot be had.
            ImageError: A picture cannot be read.
        """
        page = make_page(k, offset, min_score, dedupe, exclude_queries, exact, nprobe)
        penalty = finite_number(overall_penalty, "the overall penalty")
        return self._answer([self._preparer.terms(parse_terms(terms), penalty)], page, penalty, where)[0]

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
    ) -> list[Hits]:
        """Return what ``query`` gives for each of many queries, in one pass over the index.

        Each distinct picture is embedded once, together with the others, which changes its vectors by no more than
        the model's rounding.

        Args:
            queries: The terms of each query. All other arguments are as for ``query`` and hold for every query.

        Raises:
            TpipsError: As ``query``; the message tells which query cannot be read.
        """
        page = make_page(k, offset, min_score, dedupe, exclude_queries, exact, nprobe)
        penalty = finite_number(overall_penalty, "the overall penalty")
        if isinstance(queries, (str, bytes, Term)) or not isinstance(queries, Iterable):
            raise QueryError(f"queries must be a list of lists of terms, not {type(queries).__name__}")
        prepared = []
        for number, terms in enumerate(queries, start=1):
            try:
                prepared.append(self._preparer.terms(parse_terms(terms), penalty))
            except (QueryError, AspectError) as error:
                raise type(error)(f"query {number} of the batch: {error}") from error
        return self._answer(prepared, page, penalty, where)

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
        )

    def _answer(
        self, queries: Sequence[tuple[PreparedTerm, ...]], page: Page, penalty: float, where: Where | None
    ) -> list[Hits]:
        if page.dedupe is not None:
            self._preparer.aspect(OVERALL)
        selection = self._selections.of(where)
        prepared = self._preparer.queries(queries, penalty, with_overall=page.exclude_queries)
        answers = self._answerer.answers(prepared, page, selection)
        return [
            self._hits(query, answer, page, penalty, selection) for query, answer in zip(prepared, answers, strict=True)
        ]

    def _hits(self, query: PreparedQuery, answer: Answer, page: Page, penalty: float, selection: Selection) -> Hits:
        compiled = query.compiled
        facts = QueryFacts(
            terms=tuple(QueryTerm(term.image.label, term.aspect, term.weight, term.image) for term in query.terms),
            overall_penalty=penalty,
            total=len(self),
            where=selection.where,
            selected=selection.count,
            offset=page.offset,
            min_score=page.min_score,
            dedupe=page.dedupe,
            exact=answer.exact,
            rescored=answer.rescored,
            probed=answer.probed,
            sample_scores=lru_cache(maxsize=1)(
                lambda: np.sort(exact_scores(self._store, compiled.vectors, selection.spread(SAMPLE)))
            ),
        )
        vectors = {slug: self._store.gather(slug, answer.rows) for slug in {s for t in compiled.terms for s in t}}
        shares = [
            np.sum([(vectors[slug] * vector).sum(axis=1) for slug, vector in share.items()], axis=0)
            for share in compiled.terms
        ]
        hits = [
            Hit(
                key=record["key"],
                score=float(answer.scores[place]),
                contributions=tuple(float(share[place]) for share in shares),
                row=int(answer.rows[place]),
                metadata=self._items.metadata(record),
                rank=page.offset + place + 1,
                duplicates=tuple(self.keys[row] for row in answer.duplicates[place].tolist()),
                record=record,
                index=self.index,
            )
            for place, record in enumerate(self._items.records(answer.rows))
        ]
        return Hits(hits, facts)
