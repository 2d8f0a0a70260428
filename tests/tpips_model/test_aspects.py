"""Aspects: what makes two the same, what a slug may hold, and what is refused."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tpips_model.aspects import (
    MAX_SLUG_BYTES,
    MAX_TEXT_LENGTH,
    OVERALL,
    Aspect,
    early_fusion_prompt,
    late_fusion_prompt,
    unique_aspects,
)
from tpips_model.errors import AspectError

BLANKS = " \t\n\r\u00a0\u2003\u3000"
words = st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1, max_size=60)


def aspect_of(text: str) -> Aspect:
    try:
        return Aspect(text)
    except AspectError:
        assume(False)
        raise


@given(words)
@example("e\u0301tude  de   LUMI\u00c8RE")
@example("\u2764\ufe0f red")
@example("\u0345a")
@example("\u0130stanbul")
@example("\ufb03")
def test_text_and_slug_are_settled(text: str) -> None:
    aspect = aspect_of(text)
    assert Aspect(aspect.text) == aspect
    assert aspect.text == unicodedata.normalize("NFC", aspect.text) == " ".join(aspect.text.split())
    assert Aspect(aspect.slug).slug == aspect.slug


@given(words)
def test_slug_can_name_a_folder(text: str) -> None:
    slug = aspect_of(text).slug
    assert any(char.isalnum() for char in slug)
    assert len(slug.encode()) <= MAX_SLUG_BYTES
    assert slug.strip("-") == slug
    assert "--" not in slug
    assert all(char == "-" or char.isalnum() or unicodedata.category(char).startswith("M") for char in slug)


@given(words, st.text(BLANKS, max_size=3), st.text(BLANKS, max_size=3))
def test_blanks_around_make_no_difference(text: str, before: str, after: str) -> None:
    assert Aspect(before + aspect_of(text).text + after) == aspect_of(text)


@given(words)
def test_composed_and_decomposed_are_one(text: str) -> None:
    assert Aspect(unicodedata.normalize("NFD", aspect_of(text).text)) == aspect_of(text)


@given(st.text("abcdefgäöüßñéøαβγдеж0123456789 -", min_size=1))
def test_case_is_kept_in_the_text_and_folded_in_the_slug(text: str) -> None:
    upper = aspect_of(text.upper())
    assert upper.text == " ".join(text.upper().split())
    assert upper.slug == aspect_of(text).slug


@given(st.text("abcdefgh", min_size=MAX_SLUG_BYTES + 1, max_size=MAX_TEXT_LENGTH), st.sampled_from("xyz"))
def test_long_slugs_stay_apart(text: str, change: str) -> None:
    other = text[:-1] + change
    assert Aspect(text).slug != Aspect(other).slug
    assert len(Aspect(text).slug) == MAX_SLUG_BYTES


def test_long_slug_is_cut_between_characters() -> None:
    assert "--" not in Aspect(" ".join("ab" * 53 + "a")).slug
    assert len(Aspect("画" * 100).slug.encode()) <= MAX_SLUG_BYTES
    assert "\ufffd" not in Aspect("a" + "画" * 100).slug


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("brushwork", "brushwork"),
        ("  Color \t  Palette\n", "color-palette"),
        ("color_palette", "color-palette"),
        ("../../etc/passwd", "etc-passwd"),
        ("a.b", "a-b"),
        ("Straße", "strasse"),
        ("色 使い", "色-使い"),
        ("हिन्दी", "हिन्दी"),
        ("\u2764\ufe0f red", "red"),
        ("50% grey", "50-grey"),
    ],
)
def test_slug(text: str, slug: str) -> None:
    assert Aspect(text).slug == slug


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "must not be empty"),
        (" \t\n\u00a0", "must not be empty"),
        ("brush\0work", "control characters"),
        ("\x1b[31mred", "control characters"),
        ("red\x7f", "control characters"),
        ("red\ud800", "control characters"),
        ("!?", "no letter or digit"),
        ("🎨", "no letter or digit"),
        ("\u2764\ufe0f", "no letter or digit"),
        ("\u0301", "no letter or digit"),
        ("a" * (MAX_TEXT_LENGTH + 1), "501 characters; at most 500"),
        (None, "must be words"),
        (7, "must be words"),
    ],
)
def test_refused(text: object, match: str) -> None:
    with pytest.raises(AspectError, match=match):
        Aspect(text)  # type: ignore[arg-type]


def test_overall() -> None:
    assert OVERALL.is_overall
    assert Aspect(" Overall ").is_overall
    assert not Aspect("overall shape").is_overall
    assert Aspect.of(OVERALL) is OVERALL


def test_unique_keeps_the_first_order_and_drops_repeats() -> None:
    found = unique_aspects(["lighting", "brushwork", Aspect("lighting"), " brushwork ", "overall", "Overall"])
    assert [aspect.text for aspect in found] == ["lighting", "brushwork", "overall"]


@given(st.lists(st.sampled_from(["lighting", "brushwork", "subject", "overall"])))
def test_unique_is_settled(texts: list[str]) -> None:
    once = unique_aspects(texts)
    assert unique_aspects(once) == once
    assert {aspect.text for aspect in once} == set(texts)


def test_collision() -> None:
    with pytest.raises(AspectError, match="'color palette' and 'Color-Palette' would share the name 'color-palette'"):
        unique_aspects(["color palette", "Color-Palette"])


def test_prompts_of_appendix_c1() -> None:
    assert late_fusion_prompt("Color Palette") == "Represent the similarity of the image based on Color Palette."
    assert late_fusion_prompt("Overall") == "Represent the similarity of the image."
    assert early_fusion_prompt("lighting") == "Measure the similarity between the two images based on lighting."
    assert early_fusion_prompt(OVERALL) == "Measure the similarity between the two images."
