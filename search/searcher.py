"""The Searcher: an index, queried."""

from __future__ import annotations

import operator
import os
import shlex
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from search.compile import CompiledQuery, EmbeddedTerm, compile_query, slugs_needed
from search.exact import exact_scores, exact_top_k
from search.hits import Hit, Hits, QueryTerm
from search.items import Items, Keys
from search.query_image import QueryImage, embed_picture, find_image, stored_unit_vectors
from search.same_picture import is_query_image
from search.terms import QueryError, Term, TermLike, finite_number, parse_terms
from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL, Aspect, AspectLike
from tpips_model.embedder import Embedder
from tpips_model.errors import AspectError, ModelError
from tpips_model.images import ImageLike
from tpips_model.loading import load_embedder

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

    def __init__(self, index: IndexDirectory, *, model: Embedder | None = None) -> None:
        """Search an opened index; ``Searcher.open`` is the usual way."""
        if model is not None:
            _check_model(index, model)
        self.index = index
        self._model = model
        self._model_lock = threading.Lock()
        self._items = Items(index)
        self._store = StoredVectors.of_index(index)
        self._by_slug = {aspect.slug: aspect for aspect in index.aspects}

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        model: Embedder | None = None,
        data_root: str | os.PathLike[str] | None = None,
    ) -> Searcher:
        """Open an index directory.

        Args:
            path: The directory.
            model: Embeds pictures instead of the model that the index names; it must have the same fingerprint.
            data_root: Where the pictures are now, if not where they were indexed.

        Raises:
            IndexDirectoryError: There is no index, or it is damaged or of a newer format version.
            ModelError: ``model`` is not the one that made the index.
        """
        return cls(IndexDirectory.open(path, data_root=data_root), model=model)

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

    def query(
        self,
        terms: Iterable[TermLike],
        k: int = 10,
        overall_penalty: float = 0.0,
        exclude_queries: bool = True,
    ) -> Hits:
        """Return the k best items by score = Σ w_i (f(q_i, x | a_i) − λ f(q_i, x | overall)), exactly.

        f is the cosine similarity of an item and a term's image under an aspect. Equal scores come in row order.

        Args:
            terms: ``Term`` or tuples (image, aspect) or (image, aspect, weight). An image is a picture or the key of
                an indexed item. Weights may be negative.
            k: How many; fewer come back if the index holds fewer.
            overall_penalty: λ of the paper (0.3 there), which favours items that are similar by the aspect and
                otherwise different. Terms whose aspect is "overall" have no penalty.
            exclude_queries: Leave out the items that a term's image is: by its key; and every item whose file holds
                the same bytes, or whose vectors are the same under the query's aspects and overall (within 2e-3),
                under whatever key.

        Raises:
            QueryError: The terms, ``k`` or the penalty make no query, or an image is neither a key nor a file.
            AspectError: An aspect is not indexed; the message names those that are and the command that adds it.
            ModelError: The model that made the index cannot be had.
            ImageError: A picture cannot be read.
        """
        k = _count(k)
        penalty = finite_number(overall_penalty, "the overall penalty")
        parsed = parse_terms(terms)
        aspects = [self._indexed_aspect(term.aspect) for term in parsed]
        if penalty and not all(aspect.is_overall for aspect in aspects):
            self._indexed_aspect(OVERALL)
        images = self._embedded_images(parsed, aspects, penalty, with_overall=exclude_queries)
        compiled = compile_query(
            [
                EmbeddedTerm(aspect, term.weight, image.vectors)
                for term, aspect, image in zip(parsed, aspects, images, strict=True)
            ],
            penalty,
        )
        rows, scores = self._best(compiled, k, images if exclude_queries else [])
        asked = [
            QueryTerm(image.label, aspect, term.weight, image)
            for term, aspect, image in zip(parsed, aspects, images, strict=True)
        ]
        return Hits(
            self._hits(compiled, rows, scores),
            terms=asked,
            overall_penalty=penalty,
            total=len(self),
            sample_scores=lru_cache(maxsize=1)(lambda: self._sample_scores(compiled)),
        )

    def similar(
        self,
        image: ImageLike,
        aspect: AspectLike,
        k: int = 10,
        overall_penalty: float | None = None,
        exclude_queries: bool = True,
    ) -> Hits:
        """Return the k items most similar to one image by one aspect (the paper's aspect-conditioned retrieval).

        Args:
            image: A picture or the key of an indexed item.
            aspect: The aspect.
            k: How many.
            overall_penalty: λ; by default what the index's model recommends (0.3 for TPIPS).
            exclude_queries: Leave out the image itself.

        Raises:
            TpipsError: As ``query``.
        """
        if overall_penalty is None:
            overall_penalty = self.index.manifest.model.recommended_overall_penalty
        return self.query([Term(image, aspect)], k, overall_penalty, exclude_queries)

    def _indexed_aspect(self, aspect: AspectLike) -> Aspect:
        # Found by its slug, so that "Color  Palette" finds "color palette", whose words were embedded.
        wanted = Aspect.of(aspect)
        if wanted.slug in self._by_slug:
            return self._by_slug[wanted.slug]
        incomplete = wanted.slug in {known.slug for known in self.index.manifest.aspects}
        command = f"tpips-index build --out {shlex.quote(str(self.index.path))} --aspect {shlex.quote(wanted.text)}"
        raise AspectError(
            f"aspect {wanted.text!r} is {'only partly' if incomplete else 'not'} indexed; indexed aspects: "
            f"{', '.join(repr(known.text) for known in self.aspects) or 'none'}. To add it: {command}"
        )

    def _embedded_images(
        self, terms: Sequence[Term], aspects: Sequence[Aspect], penalty: float, *, with_overall: bool
    ) -> list[QueryImage]:
        """Return each term's image with its vectors; terms of the same image share one."""
        distinct: dict[tuple[str, object], QueryImage] = {}
        slugs: dict[tuple[str, object], dict[str, None]] = {}
        images = []
        for term, aspect in zip(terms, aspects, strict=True):
            found = find_image(term.image, self.index, self._items)
            images.append(distinct.setdefault(found.identity, found))
            wanted = slugs.setdefault(found.identity, {})
            wanted.update(dict.fromkeys(slugs_needed(aspect, penalty)))
            if with_overall and OVERALL.slug in self._by_slug:
                wanted[OVERALL.slug] = None
        for identity, image in distinct.items():
            asked = list(slugs[identity])
            if image.row is not None:
                image.vectors.update(stored_unit_vectors(self._store, image.row, asked, key=image.label))
            else:
                image.vectors.update(self._embed(image, [self._by_slug[slug] for slug in asked]))
        return images

    def _embed(self, image: QueryImage, aspects: Sequence[Aspect]) -> Mapping[str, NDArray[np.float64]]:
        with self._model_lock:
            if self._model is None:
                model = load_embedder(self.index.manifest.model.name)
                _check_model(self.index, model)
                self._model = model
            return embed_picture(image, aspects, self._model)

    def _best(
        self, compiled: CompiledQuery, k: int, excluded: Sequence[QueryImage]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the k best rows that are none of the excluded images."""
        images = list({image.identity: image for image in excluded}.values())
        wanted = k + len(images)
        while True:
            top = exact_top_k(self._store, compiled.vectors, wanted)
            kept = ~is_query_image(images, top.rows, self._store, self._items, self.index)
            if kept.sum() >= k or wanted >= len(self):
                return top.rows[kept][:k], top.scores[kept][:k]
            wanted = 2 * wanted + int((~kept).sum())  # many copies of a query's image

    def _sample_scores(self, compiled: CompiledQuery) -> NDArray[np.float64]:
        """Return the scores of evenly spaced items, float64 (at most SAMPLE,), ascending."""
        rows = np.unique(np.linspace(0, max(len(self) - 1, 0), min(len(self), SAMPLE)).astype(np.int64))
        return np.sort(exact_scores(self._store, compiled.vectors, rows))

    def _hits(self, compiled: CompiledQuery, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> list[Hit]:
        vectors = {slug: self._store.gather(slug, rows) for slug in {s for share in compiled.terms for s in share}}
        shares = [
            np.sum([(vectors[slug] * vector).sum(axis=1) for slug, vector in share.items()], axis=0)
            for share in compiled.terms
        ]
        records: list[dict[str, Any]] = self._items.records(rows)
        return [
            Hit(
                key=record["key"],
                score=float(scores[number]),
                contributions=tuple(float(share[number]) for share in shares),
                row=int(rows[number]),
                metadata=self._items.metadata(record),
                record=record,
                index=self.index,
            )
            for number, record in enumerate(records)
        ]


def _count(k: int) -> int:
    try:
        count = operator.index(k)
    except TypeError:
        count = 0
    if isinstance(k, bool) or count < 1:
        raise QueryError(f"k must be a whole number of hits, at least 1, not {k!r}")
    return count


def _check_model(index: IndexDirectory, model: Embedder) -> None:
    record = index.manifest.model
    if (model.fingerprint, model.dim) != (record.fingerprint, record.dim):
        raise ModelError(
            f"the index {index.path} was made by the model {record.name!r} (fingerprint {record.fingerprint}, "
            f"{record.dim} dimensions), and pictures would be embedded by {model.name!r} (fingerprint "
            f"{model.fingerprint}, {model.dim} dimensions), whose vectors cannot be compared with it; use the model "
            "that made the index, query by keys alone, or build a new index"
        )
