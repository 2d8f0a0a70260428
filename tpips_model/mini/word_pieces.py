"""Texts to words, and words to pieces of a table, as BERT's uncased tokeniser cuts them."""

from __future__ import annotations

import unicodedata
from collections.abc import Container, Iterator
from functools import lru_cache

__all__ = ["pieces_of_word", "words_of"]

# BERT's tokeniser gives up on longer words as well.
MAX_WORD_LENGTH = 100


def words_of(text: str) -> list[str]:
    """Split a text as BERT's uncased tokeniser does: lower case, no accents, punctuation and CJK characters apart.

    >>> words_of("Café's  light-direction")
    ['cafe', "'", 's', 'light', '-', 'direction']
    """
    decomposed = unicodedata.normalize("NFD", text.lower())
    return "".join(_spaced(decomposed)).split()


def _spaced(text: str) -> Iterator[str]:
    for char in text:
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            yield " "
        elif category in ("Mn", "Cc", "Cf", "Cs", "Co", "Cn") or char == "\ufffd":
            continue
        elif _stands_alone(char):
            yield f" {char} "
        else:
            yield char


@lru_cache(maxsize=4096)
def _stands_alone(char: str) -> bool:
    # BERT counts every ASCII character that is neither letter, digit nor blank as punctuation ("$", "+", "^" too).
    if char.isascii():
        return not char.isalnum()
    return unicodedata.category(char).startswith("P") or unicodedata.name(char, "").startswith("CJK ")


def pieces_of_word(word: str, known: Container[str]) -> list[str]:
    """Split a word into the longest known pieces from left to right (WordPiece); no pieces if a rest is unknown.

    >>> pieces_of_word("brushwork", {"brush": 0, "##work": 1, "##w": 2, "b": 3})
    ['brush', '##work']
    """
    if len(word) > MAX_WORD_LENGTH:
        return []
    pieces: list[str] = []
    start = 0
    while start < len(word):
        prefix = "##" if start else ""
        for end in range(len(word), start, -1):
            if (piece := prefix + word[start:end]) in known:
                pieces.append(piece)
                start = end
                break
        else:
            return []
    return pieces
