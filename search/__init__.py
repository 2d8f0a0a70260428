"""Compositional search over an index: each term an image, an aspect and a weight."""

from search.hits import Hit, Hits
from search.searcher import Searcher
from search.terms import Term

__all__ = ["Hit", "Hits", "Searcher", "Term"]
