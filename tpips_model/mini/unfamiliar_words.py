"""Which words the bundled model was never taught: it reads something into any letters, and says so here."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Container
from functools import lru_cache
from itertools import groupby

from tpips_model.mini.tensor_files import TEXT_FILE, WEIGHTS, read_tokens
from tpips_model.mini.word_pieces import pieces_of_word, words_of

__all__ = ["bundled_remark", "remark_on_words", "unfamiliar_words"]

# Words that the table has in pieces only, and whose pieces were moved by the distillation until they read as the
# sentence model reads the word (train/visual_words.json, train/paraphrases.py).
TAUGHT_IN_PIECES = frozenset((
    "contour", "luminance", "matte", "opacity", "ornament", "pastel", "saturation", "shading", "spacing", "tint",
    "tonal",
))  # fmt: skip
ENDINGS = frozenset((
    "s", "es", "ed", "d", "ing", "er", "ers", "r", "est", "st", "y", "ly", "ily", "ness", "iness", "less", "ful", "ish",
    "al", "ity", "ism", "ist", "ists", "like", "able", "ation",
))  # fmt: skip
# A single letter makes another word of a short one: "tin" and "tint".
SHORT_STEM_ENDINGS = frozenset(("s", "ed", "ing", "y", "ish"))
SHORT_STEM = 3
# Shorter parts join to nearly any letters: "far" and "be" to "farbe".
SHORTEST_PART = 3
SHORTEST_COMPOUND = 7

MAX_NAMED = 3
MAX_SHOWN = 40


def unfamiliar_words(text: str, known: Container[str]) -> list[str]:
    """Return the words of a text that the model can but guess at, as the user wrote them, each once.

    Familiar is a word that the table holds whole, an English ending on such a word ("rim" + "s", "blur" + "ry"), two
    such words in one ("table" + "cloth"), and what training taught in pieces ("tint"). Others, put together from pieces
    that mean something else, read hardly better than letters by lot; docs/bundled-model.md has the figures. Single
    letters and what begins with a figure are passed over.

    Args:
        text: Any text.
        known: The table's word pieces; a leading "##" marks one that continues a word.
    """
    return [word for word in _as_written(text) if not all(_is_familiar(part, known) for part in words_of(word))]


def remark_on_words(text: str, known: Container[str]) -> str | None:
    """Return one line on the words of a text that the model does not know, or ``None`` if it knows them.

    >>> remark_on_words("soft Farbe", {"soft", "far", "##be"})
    "mini does not know the word 'Farbe' (it reads English): what it finds by it is a guess"
    """
    words = unfamiliar_words(text, known)
    if not words:
        return None
    named = [f"'{word if len(word) <= MAX_SHOWN else word[:MAX_SHOWN] + '…'}'" for word in words[:MAX_NAMED]]
    if more := len(words) - len(named):
        named.append(f"{more} more")
    if len(named) == 1:
        which, by = f"word {named[0]}", "it"
    else:
        which, by = f"words {', '.join(named[:-1])} and {named[-1]}", "them"
    return f"mini does not know the {which} (it reads English): what it finds by {by} is a guess"


@lru_cache(maxsize=4096)
def bundled_remark(text: str) -> str | None:
    """Return ``remark_on_words`` of the model that ships with the package; its vocabulary is read, its weights are not.

    Raises:
        ModelError: The vocabulary is missing or damaged.
    """
    return remark_on_words(text, _bundled_pieces())


@lru_cache(maxsize=1)
def _bundled_pieces() -> Collection[str]:
    return frozenset(read_tokens(WEIGHTS / TEXT_FILE))


def _as_written(text: str) -> list[str]:
    """Return the runs of letters, figures and marks of a text, each once."""
    runs = groupby(unicodedata.normalize("NFC", text), lambda char: unicodedata.category(char)[0] in "LNM")
    return list(dict.fromkeys("".join(run) for belongs, run in runs if belongs))


def _is_familiar(word: str, known: Container[str]) -> bool:
    letters = [char for char in word if char.isalpha()]
    if word in known or word in TAUGHT_IN_PIECES or word[0].isdigit():
        return True
    # "x²"; a sign of another script may be a whole word.
    if len(letters) < 2 and all(map(str.isascii, letters)):
        return True
    if any(word == taught + ending for taught in TAUGHT_IN_PIECES for ending in ("s", "ed", "ing", "ly")):
        return True
    stem, *rest = pieces_of_word(word, known) or [""]
    if len(stem) < SHORTEST_PART:
        return False
    before = stem
    for piece in rest:
        part = piece.removeprefix("##")
        if not _is_ending(part, before, word) and not _is_compound(part, before, known):
            return False
        before = part
    return True


def _is_ending(part: str, before: str, word: str) -> bool:
    # English doubles a consonant before an ending: "blur" + "ry", "crop" + "ping".
    single = part[1:] if len(part) > 1 and part[0] == before[-1] and part[1:] in ENDINGS else part
    if len(before) <= SHORT_STEM and word.startswith(before):
        return single in SHORT_STEM_ENDINGS
    return single in ENDINGS


def _is_compound(part: str, before: str, known: Container[str]) -> bool:
    long_enough = min(len(part), len(before)) >= SHORTEST_PART and len(part) + len(before) >= SHORTEST_COMPOUND
    return long_enough and part in known
