"""Aspects: the senses in which two images can be similar (the paper's condition c)."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property

from tpips_model.errors import AspectError
from tpips_model.hidden_characters import hidden_character

__all__ = [
    "OVERALL",
    "Aspect",
    "AspectLike",
    "early_fusion_prompt",
    "late_fusion_prompt",
    "new_aspects",
    "several_aspects",
    "unique_aspects",
]

MAX_TEXT_LENGTH = 500
# A slug names a folder; 255 bytes is the limit of common file systems, and a suffix may follow.
MAX_SLUG_BYTES = 120


@dataclass(frozen=True)
class Aspect:
    """One sense of similarity, in free words.

    Args:
        text: Any words, such as ``"brushwork"`` or ``"Color Palette"``. Blanks are trimmed and collapsed and the
            characters brought to Unicode NFC; the case is kept, since it reaches the model's prompt.

    Raises:
        AspectError: The text is empty, too long, holds control characters, or has no letter or digit.

    Examples:
        >>> Aspect("  Color   Palette ").text, Aspect("  Color   Palette ").slug
        ('Color Palette', 'color-palette')
        >>> Aspect("Overall").is_overall
        True
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise AspectError(f"an aspect must be words (str), but {self.text!r} is {type(self.text).__name__}")
        if any(unicodedata.category(char) in ("Cc", "Cs") for char in self.text if char not in "\t\n\r"):
            raise AspectError(f"aspect {self.text!r} holds control characters; give plain words such as 'brushwork'")
        text = " ".join(unicodedata.normalize("NFC", self.text).split())
        if not text:
            raise AspectError(
                "an aspect must not be empty; give words such as 'brushwork', or 'overall' for no condition"
            )
        if len(text) > MAX_TEXT_LENGTH:
            raise AspectError(
                f"aspect {text[:40]!r}… has {len(text)} characters; at most {MAX_TEXT_LENGTH} are allowed"
            )
        object.__setattr__(self, "text", text)
        if not self.slug:
            raise AspectError(f"aspect {text!r} has no letter or digit; give words such as 'brushwork'")

    @cached_property
    def slug(self) -> str:
        """The aspect's name in files and look-ups: case folded, every run of other characters one hyphen."""
        folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", self.text).casefold())
        kept = ""
        for char in folded:
            # A mark belongs to the letter before it; alone, or after a symbol, it could not be seen.
            belongs = unicodedata.category(char).startswith("M") and kept[-1:] not in ("", " ")
            kept += char if char.isalnum() or belongs else " "
        slug = "-".join(kept.split())
        if len(slug.encode()) > MAX_SLUG_BYTES:
            digest = hashlib.sha256(slug.encode()).hexdigest()[:12]
            head = slug.encode()[: MAX_SLUG_BYTES - len(digest) - 1].decode(errors="ignore").rstrip("-")
            slug = f"{head}-{digest}"
        return slug

    @property
    def is_overall(self) -> bool:
        """Whether this is the aspect that stands for no condition."""
        return self.slug == "overall"

    @classmethod
    def of(cls, value: AspectLike) -> Aspect:
        """Return ``value`` as an aspect; words become one, an aspect is returned as it is."""
        return value if isinstance(value, Aspect) else cls(value)

    def __str__(self) -> str:
        return self.text


AspectLike = Aspect | str

OVERALL = Aspect("overall")


def several_aspects(values: Iterable[AspectLike]) -> tuple[Aspect, ...]:
    """Return the aspects in their order, repeats kept.

    Raises:
        AspectError: One of them is no words, or they are not in an order: words alone would be read letter by letter.
    """
    if isinstance(values, (str, bytes, Aspect, Set)) or not isinstance(values, Iterable):
        raise AspectError(
            f"the aspects are {values!r:.80} of type {type(values).__name__}; give a list, such as ['color palette']"
        )
    return tuple(Aspect.of(value) for value in values)


def new_aspects(values: Iterable[AspectLike], *, known: Iterable[Aspect] = ()) -> tuple[Aspect, ...]:
    """Return the aspects in their order, as they are to be kept from now on.

    Args:
        values: What the user gives.
        known: Aspects that are kept already, and stay what they are.

    Raises:
        AspectError: As ``several_aspects``; or one holds a character that nobody sees, by which it could look like
            another one, or turn round what stands beside it.
    """
    aspects, kept = several_aspects(values), set(known)
    for aspect in aspects:
        char = hidden_character(aspect.text)
        if char is not None and aspect not in kept:
            raise AspectError(
                f"aspect {aspect.text!r} holds the invisible character U+{ord(char):04X} "
                f"({unicodedata.name(char, 'without a name')}), by which it could look like another aspect; type its "
                "words anew, without it"
            )
    return aspects


def unique_aspects(values: Iterable[AspectLike]) -> tuple[Aspect, ...]:
    """Return the aspects in their first order, repeats dropped.

    Raises:
        AspectError: Two different texts share one slug (``"color palette"`` and ``"Color-Palette"``), so that they
            could not be told apart in an index.
    """
    by_slug: dict[str, Aspect] = {}
    for value in values:
        aspect = Aspect.of(value)
        known = by_slug.setdefault(aspect.slug, aspect)
        if known != aspect and not aspect.is_overall:
            raise AspectError(
                f"aspects {known.text!r} and {aspect.text!r} would share the name {aspect.slug!r}; keep one of them"
            )
    return tuple(by_slug.values())


def late_fusion_prompt(aspect: AspectLike) -> str:
    """Return the instruction of late and mid fusion (Appendix C.1; one image per forward pass).

    >>> late_fusion_prompt("lighting"), late_fusion_prompt("overall")
    ('Represent the similarity of the image based on lighting.', 'Represent the similarity of the image.')
    """
    aspect = Aspect.of(aspect)
    condition = "" if aspect.is_overall else f" based on {aspect.text}"
    return f"Represent the similarity of the image{condition}."


def early_fusion_prompt(aspect: AspectLike) -> str:
    """Return the instruction of early fusion (Appendix C.1; two images per forward pass).

    >>> early_fusion_prompt("lighting")
    'Measure the similarity between the two images based on lighting.'
    >>> early_fusion_prompt("overall")
    'Measure the similarity between the two images.'
    """
    aspect = Aspect.of(aspect)
    condition = "" if aspect.is_overall else f" based on {aspect.text}"
    return f"Measure the similarity between the two images{condition}."
