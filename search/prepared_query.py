"""Queries made ready for the engine: aspects looked up, images told apart and embedded, terms compiled."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from indexer import IndexDirectory
from search.compile import CompiledQuery, EmbeddedTerm, compile_query, slugs_needed
from search.items import Items
from search.milvus.address import is_milvus_address
from search.query_image import QueryImage, find_image, stored_unit_vectors
from search.terms import Term
from search.vectors import StoredVectors
from tpips_model.aspects import OVERALL, Aspect, AspectLike, new_aspects
from tpips_model.errors import AspectError

__all__ = ["PreparedQuery", "PreparedTerm", "QueryPreparer", "needed_slugs", "prepared_query"]

Identity = tuple[str, object]
NeededSlugs = dict[Identity, dict[str, None]]
Embed = Callable[[Sequence[QueryImage], Sequence[Aspect]], list[dict[str, NDArray[np.float64]]]]


@dataclass(frozen=True, eq=False)
class PreparedTerm:
    """A term as the index understands it."""

    aspect: Aspect
    weight: float
    image: QueryImage


@dataclass(frozen=True, eq=False)
class PreparedQuery:
    """A query that can be answered.

    Attributes:
        terms: As they were asked.
        images: The distinct images of the terms, embedded.
        compiled: What the engine is asked.
    """

    terms: tuple[PreparedTerm, ...]
    images: tuple[QueryImage, ...]
    compiled: CompiledQuery


class QueryPreparer:
    """Prepares queries to one index.

    Args:
        index: The index.
        items: Its items.
        store: Its vectors.
        embed: Embeds pictures under aspects: float64 (D,) by slug for each picture.
    """

    def __init__(self, index: IndexDirectory, items: Items, store: StoredVectors, embed: Embed) -> None:
        self._index = index
        self._items = items
        self._store = store
        self._embed = embed
        self._by_slug = {aspect.slug: aspect for aspect in index.aspects}

    def is_indexed(self, aspect: Aspect) -> bool:
        """Tell whether all items have vectors under an aspect."""
        return aspect.slug in self._by_slug

    def aspect(self, aspect: AspectLike, *, live: bool = False) -> Aspect:
        """Return an indexed aspect, found by its slug: "Color  Palette" is "color palette", whose words were embedded.

        Args:
            aspect: The aspect.
            live: Whether one that is not indexed comes back as it is.

        Raises:
            AspectError: It is not indexed, or not for all parts.
        """
        wanted = Aspect.of(aspect)
        if wanted.slug in self._by_slug:
            return self._by_slug[wanted.slug]
        if live:
            return new_aspects([wanted])[0]
        incomplete = wanted.slug in {known.slug for known in self._index.manifest.aspects}
        where = str(self._index.path)
        pushed = is_milvus_address(where)
        command = (
            f"tpips-index build --out {'INDEX' if pushed else shlex.quote(where)} --aspect {shlex.quote(wanted.text)}"
        )
        command += f", and then tpips-index push INDEX {shlex.quote(where)} --replace" if pushed else ""
        known = ", ".join(repr(aspect.text) for aspect in self._by_slug.values()) or "none"
        # Penalties and near-duplicates need all items' overall vectors.
        look = (
            "" if wanted.is_overall else "; to look at the likeliest pictures for this query alone: live=64 (--live 64)"
        )
        raise AspectError(
            f"aspect {wanted.text!r} is {'only partly' if incomplete else 'not'} indexed; indexed aspects: {known}. "
            f"To add it: {command}{look}"
        )

    def terms(self, terms: Sequence[Term], penalty: float, *, live: bool = False) -> tuple[PreparedTerm, ...]:
        """Look up one query's aspects and images; its terms of the same image share one.

        Args:
            terms: The terms.
            penalty: λ.
            live: Whether aspects may be among them that are not indexed.

        Raises:
            AspectError: An aspect is not indexed, or overall where the penalty needs it.
            QueryError: An image is neither a key nor a file.
        """
        aspects: list[Aspect] = []
        first: dict[str, Aspect] = {}
        for term in terms:
            aspect = self.aspect(term.aspect, live=live)
            # As in an index, words of one slug are one aspect: those that came first.
            aspects.append(first.setdefault(aspect.slug, aspect))
        if penalty and not all(aspect.is_overall for aspect in aspects):
            self.aspect(OVERALL)
        distinct: dict[Identity, QueryImage] = {}
        prepared = []
        for term, aspect in zip(terms, aspects, strict=True):
            found = find_image(term.image, self._index, self._items)
            prepared.append(PreparedTerm(aspect, term.weight, distinct.setdefault(found.identity, found)))
        return tuple(prepared)

    def queries(
        self, queries: Sequence[tuple[PreparedTerm, ...]], penalty: float, *, with_overall: bool
    ) -> list[PreparedQuery]:
        """Embed the images of all queries, each distinct one once, and compile the queries.

        Args:
            queries: Each query's terms, as ``terms`` gives them.
            penalty: λ.
            with_overall: Embed every image under overall too, if that is indexed.

        Raises:
            QueryError: The terms of a query cancel each other out, or overflow.
            ImageError: A picture cannot be read.
            ModelError: The model cannot be had, or gives no unit vectors.
        """
        overall = with_overall and OVERALL.slug in self._by_slug
        needed = [needed_slugs(terms, penalty, with_overall=overall) for terms in queries]
        vectors = self._vectors(queries, needed)
        return [prepared_query(*one, vectors, penalty) for one in zip(queries, needed, strict=True)]

    def _vectors(
        self, queries: Sequence[tuple[PreparedTerm, ...]], needed: Sequence[NeededSlugs]
    ) -> dict[Identity, dict[str, NDArray[np.float64]]]:
        """Return each distinct image's vectors under all aspects that any query needs of it."""
        images: dict[Identity, QueryImage] = {}
        slugs: NeededSlugs = {}
        for terms, wanted in zip(queries, needed, strict=True):
            for term in terms:
                images.setdefault(term.image.identity, term.image)
            for identity, names in wanted.items():
                slugs.setdefault(identity, {}).update(names)
        vectors: dict[Identity, dict[str, NDArray[np.float64]]] = {}
        together: dict[frozenset[str], list[QueryImage]] = {}
        for identity, image in images.items():
            if image.row is not None:
                asked = list(slugs[identity])
                vectors[identity] = stored_unit_vectors(self._store, image.row, asked, key=image.label)
            else:
                together.setdefault(frozenset(slugs[identity]), []).append(image)
        for pictures in together.values():
            # In the order of the first, not of the set, so that the model is asked alike every time.
            aspects = [self._by_slug[slug] for slug in slugs[pictures[0].identity]]
            found = self._embed(pictures, aspects)
            vectors.update({image.identity: own for image, own in zip(pictures, found, strict=True)})
        return vectors


def needed_slugs(terms: Sequence[PreparedTerm], penalty: float, *, with_overall: bool) -> NeededSlugs:
    """Return for each image of a query the aspects that it is scored and recognised by, in a fixed order.

    Args:
        terms: The query's terms.
        penalty: λ.
        with_overall: Whether every image is recognised by overall, too.
    """
    needed: NeededSlugs = {}
    for term in terms:
        wanted = needed.setdefault(term.image.identity, {})
        wanted.update(dict.fromkeys(slugs_needed(term.aspect, penalty)))
        if with_overall:
            wanted[OVERALL.slug] = None
    return needed


def prepared_query(
    terms: Sequence[PreparedTerm],
    needed: NeededSlugs,
    vectors: Mapping[Identity, Mapping[str, NDArray[np.float64]]],
    penalty: float,
) -> PreparedQuery:
    """Compile a query whose images are embedded.

    Args:
        terms: The query's terms; their images are given their vectors.
        needed: As ``needed_slugs`` gives it.
        vectors: float64 (D,) by slug for each image, under at least what is needed.
        penalty: λ.

    Raises:
        QueryError: The terms cancel each other out, or overflow.
    """
    images = {term.image.identity: term.image for term in terms}
    for identity, image in images.items():
        # What it has besides would change which items count as copies of the image.
        image.vectors.update({slug: vectors[identity][slug] for slug in needed[identity]})
    embedded = [EmbeddedTerm(term.aspect, term.weight, term.image.vectors) for term in terms]
    return PreparedQuery(tuple(terms), tuple(images.values()), compile_query(embedded, penalty))
