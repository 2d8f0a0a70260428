"""Characters that nobody sees: by them two texts look alike, or one is shown in another order than it is read in.

Some scripts and emoji need such characters in certain places, and have them there.
"""

from __future__ import annotations

import unicodedata

__all__ = ["hidden_character"]

NON_JOINER, JOINER, MONGOLIAN_VOWEL_SEPARATOR = "\u200c", "\u200d", "\u180e"
# Of the category Cf, and drawn all the same: signs before numbers in Arabic, Syriac and Kaithi.
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")
# Of other categories, and not drawn: grapheme joiner, fillers of Hangul, the empty pattern of Braille.
_EMPTY = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
_VIRAMA = 9


def hidden_character(text: str) -> str | None:
    """Return the first character of a text that nobody sees and that has no use in its place.

    >>> hidden_character("brush\\u200bwork"), hidden_character("👩\\u200d🎨 portraits")
    ('\\u200b', None)
    """
    for place, char in enumerate(text):
        before, after = text[:place], text[place + 1 :]
        if unicodedata.category(char) == "Cf":
            seen = char in _DRAWN or _is_needed(before, char, after)
        else:
            seen = char not in _EMPTY and not (_is_variation(char) and _has_case(before[-1:]))
        if not seen:
            return char
    return None


def _is_needed(before: str, char: str, after: str) -> bool:
    if char == MONGOLIAN_VOWEL_SEPARATOR:
        return all("\u1820" <= one <= "\u18aa" for one in (before[-1:], after[:1]))
    if char not in (NON_JOINER, JOINER) or not before:
        return False
    # RFC 5892, appendices A.1 and A.2: at a virama, and between letters of scripts whose letters join.
    if any(one and unicodedata.combining(one) == _VIRAMA for one in (before[-1], after[:1])):
        return True
    if _direction(_without_marks(before)[-1:]) == _direction(after[:1]) == "AL":
        return True
    return char == JOINER and _is_picture(_without_marks(before, tones=True)[-1:]) and _is_picture(after[:1])


def _without_marks(text: str, *, tones: bool = False) -> str:
    """Return a text without the marks at its end, and without tones of skin."""
    while text and (unicodedata.category(text[-1]) == "Mn" or (tones and "\U0001f3fb" <= text[-1] <= "\U0001f3ff")):
        text = text[:-1]
    return text


def _direction(char: str) -> str:
    """Return a character's direction; that of letters in Arabic, Syriac and Thaana is "AL"."""
    return unicodedata.bidirectional(char) if char else ""


def _is_picture(char: str) -> bool:
    return bool(char) and unicodedata.category(char) == "So"


def _is_variation(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _has_case(char: str) -> bool:
    """Tell whether it is a letter of Latin, Greek, Cyrillic or so, which have case and no variants."""
    return char.lower() != char.upper()
