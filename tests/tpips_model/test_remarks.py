"""A model says which words it can but guess at, and says nothing of those that it knows."""

from __future__ import annotations

import random
import re
import string
import subprocess
import sys
from pathlib import Path

import pytest

from apps.aspect_words import EXPLANATIONS
from tests.fixtures.indices import StubEmbedder
from tests.tpips_model.test_mini_text import PHRASES
from tpips_model.aspects import OVERALL
from tpips_model.errors import AspectError, ModelError
from tpips_model.mini.embedder import load
from tpips_model.mini.tensor_files import TEXT_FILE, WEIGHTS, read_tokens
from tpips_model.mini.text import TextTable
from tpips_model.mini.unfamiliar_words import TAUGHT_IN_PIECES, unfamiliar_words
from tpips_model.remarks import remark_on, remarks_on
from train.paraphrases import HELD_PARAPHRASES, PARAPHRASES
from train.visual_phrases import visual_words

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_EXAMPLE = re.compile(r'--aspect (?:"([^"=]+)"|([a-z-]+))|"[^"]+:([a-z ]+)(?::-?[\d.]+)?"')


@pytest.fixture(scope="module")
def known() -> frozenset[str]:
    return frozenset(read_tokens(WEIGHTS / TEXT_FILE))


@pytest.mark.parametrize(
    ("aspect", "words"),
    [
        ("qwrtzk", "word 'qwrtzk' (it reads English): what it finds by it"),
        ("Pinselführung", "word 'Pinselführung' (it reads English): what it finds by it"),
        ("Farbe", "word 'Farbe' (it reads English): what it finds by it"),
        ("die Melancholie der Farbe", "words 'Melancholie' and 'Farbe' (it reads English): what it finds by them"),
        ("soft brushwrok", "word 'brushwrok' (it reads English): what it finds by it"),
        ("color 灯光", "word '灯光' (it reads English): what it finds by it"),
        (
            "asdf qwrtzk Farbe yxcv asdf bnmlk",
            "words 'asdf', 'qwrtzk', 'Farbe' and 2 more (it reads English): what it finds by them",
        ),
        ("q" * 100, "word '" + "q" * 40 + "…' (it reads English): what it finds by it"),
    ],
)
def test_a_guess_is_told(aspect: str, words: str) -> None:
    assert remark_on("mini", aspect) == f"mini does not know the {words} is a guess"


def test_letters_by_lot_are_told(known: frozenset[str]) -> None:
    lot = random.Random(0)
    words = ["".join(lot.choices(string.ascii_lowercase, k=lot.randint(5, 9))) for _ in range(500)]
    passed = [word for word in words if not unfamiliar_words(word, known)]
    assert len(passed) <= 2, passed


def test_words_that_the_model_was_taught_are_not_remarked_on(known: frozenset[str]) -> None:
    taught = [
        *(word for words in visual_words().values() for word in words),
        *(phrase for phrases in (*PARAPHRASES.values(), *HELD_PARAPHRASES.values()) for phrase in phrases),
    ]
    assert len(taught) > 700
    assert {phrase: words for phrase in taught if (words := unfamiliar_words(phrase, known))} == {}


def test_only_words_taught_are_called_taught(known: frozenset[str]) -> None:
    taught = " ".join(
        [*(word for words in visual_words().values() for word in words), *(str(PARAPHRASES.values()).split())]
    )
    for word in TAUGHT_IN_PIECES:
        assert word in taught
        assert word not in known


def test_what_the_app_explains_is_not_remarked_on(known: frozenset[str]) -> None:
    texts = [*EXPLANATIONS, *EXPLANATIONS.values(), OVERALL.text]
    remarked = {word for text in texts for word in unfamiliar_words(text, known)}
    # Cut to "ty", "po" and "graphy", it is read as "telephoto": the model has not learnt it, and may well say so.
    assert remarked == {"typography"}


def test_examples_of_the_pages_are_not_remarked_on(known: frozenset[str]) -> None:
    examples = {"".join(found) for page in PAGES for found in _EXAMPLE.findall(page.read_text("utf-8"))}
    assert {"brushwork", "color palette", "evening mood"} <= examples
    assert {text: words for text in examples if (words := unfamiliar_words(text, known))} == {}


@pytest.mark.parametrize(
    "aspect",
    """
colour palettes|COLOUR PALETTE|greyness of the centre|stylised outlines|colouration|tints, pastels & hues|close-up
the dog's fur|don't care|blurry|cropping|crispness|light-direction|50mm lens|18th-century dress|x² + y²|3|brushstrokes
tablecloth|wallpaper|silhouettes|Café|naïve art|bluish shadows|overexposed|a_b_c|☀ light|rims and petals|watercolour
""".replace("\n", "|")
    .strip("|")
    .split("|"),
)
def test_ordinary_english_is_not_remarked_on(aspect: str) -> None:
    assert remark_on("mini", aspect) is None


def test_few_of_many_phrases_are_remarked_on(known: frozenset[str]) -> None:
    remarked = {word for phrase in PHRASES for word in unfamiliar_words(phrase, known)}
    assert remarked <= {"Gemälde", "piñata", "crème", "brûlée", "serif", "venation", "ellipsis", "petal"}


def test_the_name_the_model_and_an_embedder_of_that_name_say_the_same() -> None:
    class Shared(StubEmbedder):
        name = "mini"

    for aspect in ("Farbe", "brushwork"):
        assert remark_on("mini", aspect) == remark_on(load(), aspect) == remark_on(Shared(), aspect)


def test_other_models_need_say_nothing() -> None:
    assert remark_on(StubEmbedder(), "Farbe") is None
    assert remark_on("Qwen/Qwen3-VL-Embedding-2B?dtype=float32", "Farbe") is None


def test_remarks_come_once_and_in_order() -> None:
    remarks = remarks_on("mini", ["Farbe", "brushwork", "qwrtzk", "Farbe"])
    assert [re.findall(r"'(\w+)'", remark) for remark in remarks] == [["Farbe"], ["qwrtzk"]]


def test_no_words_are_a_fault() -> None:
    with pytest.raises(AspectError, match="must not be empty"):
        remark_on("mini", " ")


def test_the_vocabulary_is_the_tables(known: frozenset[str]) -> None:
    assert known == set(TextTable.from_file(WEIGHTS / TEXT_FILE).index)


def test_a_vocabulary_that_is_missing_or_damaged_is_told(tmp_path: Path) -> None:
    path = tmp_path / TEXT_FILE
    with pytest.raises(ModelError, match="is missing; reinstall the package"):
        read_tokens(path)
    path.write_bytes(b"no tensors")
    with pytest.raises(ModelError, match=r"is damaged .*; reinstall the package"):
        read_tokens(path)


def test_a_remark_loads_no_torch() -> None:
    program = "import sys; from tpips_model.remarks import remark_on; print(remark_on('mini', 'Farbe')); "
    ran = subprocess.run(
        [sys.executable, "-c", program + "assert 'torch' not in sys.modules"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "'Farbe'" in ran.stdout
