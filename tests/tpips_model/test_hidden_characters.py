"""Characters that nobody sees are refused in new aspects, but not where a script or an emoji needs them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpips_model.aspects import OVERALL, Aspect, new_aspects
from tpips_model.errors import AspectError
from tpips_model.hidden_characters import hidden_character

HIDDEN = {
    "right-to-left override": "\u202egnithgil",
    "isolate": "light\u2066ing\u2069",
    "zero-width space": "brush\u200bwork",
    "byte order mark": "\ufeffbrushwork",
    "soft hyphen": "brush\u00adwork",
    "word joiner": "brush\u2060work",
    "Arabic letter mark": "خط\u061c",
    "right-to-left mark": "אור\u200f",
    "joiner in Latin": "brush\u200dwork",
    "non-joiner in Cyrillic": "мазо\u200cк",
    "joiner at the end": "brushwork\u200d",
    "non-joiner at the beginning": "\u200cسبک",
    "joiner behind one emoji": "🎨\u200d mood",
    "joiner between emoji and letter": "🎨\u200dmood",
    "tag": "mood\U000e0061",
    "Mongolian separator in Latin": "mo\u180eod",
    "variation of a Latin letter": "mo\ufe0fod",
    "filler": "mo\u3164od",
    "empty Braille": "mood \u2800",
    "grapheme joiner": "mo\u034fod",
}
SEEN = [
    "brushwork",
    "e\u0301tude",
    "نیم\u200cفاصله",  # Persian
    "بِ\u200cها",  # behind a mark
    "क्\u200dष",  # Devanagari, at a virama
    "ශ්\u200dරී",  # Sinhala
    "ന്\u200d",  # Malayalam, at the end
    "র\u200d্য",  # Bengali, before a virama
    "ᠭᠠᠵᠠᠷ\u180eᠠ",  # Mongolian
    "\u06dd١٢ ayah",
    "👩\u200d🎨 portraits",
    "👩🏽\u200d🎨 portraits",
    "❤️\u200d🔥 mood",
    "🏳️\u200d🌈 colours",
    "1️⃣ first",
    "葛\U000e0100",
    "אוֹר",
]


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_nobody_sees_is_refused_in_new_aspects_alone(text: str) -> None:
    char = hidden_character(text)
    assert char is not None
    assert char in text
    with pytest.raises(
        AspectError, match=rf"holds the invisible character U\+{ord(char):04X} \([A-Z0-9 -]+\), by which"
    ):
        new_aspects(["mood", text])
    old = Aspect(text)  # as a manifest may hold it
    assert new_aspects(["mood", text], known=[OVERALL, old])[1] == old


@pytest.mark.parametrize("text", SEEN)
def test_what_scripts_and_emoji_need_is_kept(text: str) -> None:
    assert hidden_character(text) is None
    assert new_aspects([text]) == (Aspect(text),)


@given(
    st.text(st.characters(exclude_categories=("Cf", "Cs")), max_size=30), st.sampled_from("\u202e\u200b\u2066\ufeff")
)
def test_no_place_makes_an_override_or_a_zero_width_space_useful(text: str, char: str) -> None:
    for place in range(len(text) + 1):
        assert hidden_character(text[:place] + char + text[place:]) is not None


@given(st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=60))
def test_plain_words_of_any_script_are_seen(text: str) -> None:
    fillers = set("\u115f\u1160\u3164\uffa0")
    assert (hidden_character(unicodedata.normalize("NFC", text)) is None) == fillers.isdisjoint(text)
