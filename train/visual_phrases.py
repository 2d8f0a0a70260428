"""English phrases about what pictures look like, from which the bundled model's text table is distilled.

They only teach the table what words mean together (their targets come from the sentence model); no picture and no
label is attached to any of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources

import numpy as np

__all__ = ["visual_phrases", "visual_words"]

OF_TEMPLATES = (
    "{q} of the {t}",
    "the {q} of the {t}",
    "{t} {q}",
    "{q} in the {t}",
    "the {t}'s {q}",
    "{q} of {t}",
)
QUALITY_TEMPLATES = (
    "{q}",
    "the {q}",
    "image {q}",
    "{q} of the image",
    "overall {q}",
    "{a} {q}",
    "the {a} {q}",
    "{a} or {b}",
    "{a} {t}",
    "{q} and {p}",
    "kind of {q}",
    "what the {q} is",
    "how {a} it is",
    "how {a} the {t} is",
    "where the {t} is",
    "which {t} is {a}",
    "how much {q}",
    "{a} versus {b}",
    "{t}",
    "the {t}",
    "{a}",
    "the {t} and its {q}",
    "{a} {q} of the {t}",
)


@lru_cache(maxsize=1)
def visual_words() -> Mapping[str, Sequence[str]]:
    """Return the word lists by name: "qualities", "things", "adjectives", and "art_words".

    The last are words of the trade, many of which the sentence model's vocabulary lacks; the table holds each whole.
    """
    words: dict[str, list[str]] = json.loads(resources.files("train").joinpath("visual_words.json").read_text("utf-8"))
    return words


def visual_phrases(count: int, *, seed: int) -> list[str]:
    """Return different phrases, such as "the warm hue of the sky", drawn from word lists and templates.

    Args:
        count: How many; there are some hundred thousand to draw from.
        seed: The same seed gives the same phrases.
    """
    rng = np.random.default_rng(seed)

    def draw(words: Sequence[str]) -> str:
        return words[int(rng.integers(len(words)))]

    lists = visual_words()
    qualities, things, adjectives = [*lists["qualities"], *lists["art_words"]], lists["things"], lists["adjectives"]
    phrases: dict[str, None] = dict.fromkeys(word for words in lists.values() for word in words)
    while len(phrases) < count:
        template = draw(OF_TEMPLATES if rng.random() < 0.4 else QUALITY_TEMPLATES)
        words = {"q": draw(qualities), "p": draw(qualities), "t": draw(things)}
        phrases[template.format(**words, a=draw(adjectives), b=draw(adjectives))] = None
    return list(phrases)[:count]
