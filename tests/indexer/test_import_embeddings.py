from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indexer.directory import IndexDirectory
from indexer.exporting.export import export_index
from indexer.importing.config import ImportConfig, ImportSummary
from indexer.importing.vector_input import EmbeddingsError
from indexer.importing.vectors import import_vectors
from indexer.verifying.verify import VerifyConfig, verify
from tests.fixtures.exports import COUNT, DIM, exported_index, run_command, stored, unit_vectors
from tests.fixtures.picture_folders import picture_bytes
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError


def imported(out: Path, *, keys: Path | str | None = None, **more: object) -> tuple[IndexDirectory, ImportSummary]:
    """Import vectors given as aspect=place, "overall" and so on."""
    options = {name: more.pop(name) for name in ("pictures", "normalise", "fingerprint", "model_name") if name in more}
    vectors = tuple((Aspect(name.replace("_", " ")), str(place)) for name, place in more.items())
    config = ImportConfig(
        out,
        vectors=vectors,
        keys=None if keys is None else str(keys),
        progress=False,
        **options,  # type: ignore[arg-type]
    )
    summary = import_vectors(config)
    return IndexDirectory.open(out, verify=True), summary


def assert_unit(index: IndexDirectory) -> None:
    for aspect in index.aspects:
        lengths = np.linalg.norm(np.concatenate(index.vectors(aspect)).astype(np.float64), axis=1)
        assert np.abs(lengths - 1.0).max() < 2e-3


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> IndexDirectory:
    return IndexDirectory.open(exported_index(tmp_path_factory.mktemp("import") / "Картины"))


@pytest.mark.parametrize(
    ("layout", "place", "options"),
    [
        ("parquet", "ваза.parquet", {}),
        ("parquet", "single.parquet", {"dtype": "float32"}),
        ("npy", "ваза", {}),
        ("npy", "single", {"dtype": "float32"}),
        ("laion", "ваза", {"rows_per_file": 14}),
    ],
)
def test_an_export_comes_back_to_the_last_bit(
    index: IndexDirectory, tmp_path: Path, layout: str, place: str, options: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.importing.vectors.PART_VALUES", 40 * DIM)
    export_index(index, tmp_path / place, layout=layout, progress=False, **options)
    import_vectors(ImportConfig(tmp_path / "index", export=str(tmp_path / place), progress=False))
    again = IndexDirectory.open(tmp_path / "index", verify=True)
    assert again.manifest.model == index.manifest.model
    assert again.aspects == index.aspects
    assert [part.rows for part in again.manifest.parts] == [40, 40, 40, 30]
    for aspect in index.aspects:
        assert np.array_equal(stored(again, aspect.text), stored(index, aspect.text))
    before, after = index.items(), again.items()
    assert sorted(after.column_names) == sorted(before.column_names)
    for name in before.column_names:
        assert after[name].type == before[name].type
        assert after[name].to_pylist() == before[name].to_pylist()


def test_vectors_that_rounding_has_taken_further_off_come_back_too(tmp_path: Path) -> None:
    vectors = unit_vectors(2000) * np.float32(1.00095)
    halves = vectors.astype(np.float16)
    assert (np.abs(np.linalg.norm(halves.astype(np.float64), axis=1) - 1.0) > 1e-3).any()
    for dtype in (np.float16, np.float32, np.float64):
        np.save(tmp_path / f"{np.dtype(dtype)}.npy", halves.astype(dtype), allow_pickle=False)
        found, _ = imported(tmp_path / f"index {np.dtype(dtype)}", overall=tmp_path / f"{np.dtype(dtype)}.npy")
        assert np.array_equal(stored(found, "overall"), halves.view(np.uint16))


def test_the_parts_of_an_export_can_be_given_one_by_one(index: IndexDirectory, tmp_path: Path) -> None:
    export_index(index, tmp_path / "npy", layout="npy", progress=False)
    export_index(index, tmp_path / "laion", layout="laion", rows_per_file=30, progress=False)
    export_index(index, tmp_path / "a.parquet", layout="parquet", progress=False)
    keys = index.items()["key"].to_pylist()
    for number, place in enumerate(
        ("npy", "npy/color-palette.npy", "laion", "laion/color-palette", "a.parquet", "a.parquet?column=color-palette")
    ):
        found, summary = imported(tmp_path / f"index {number}", color_palette=tmp_path / place)
        assert summary.key == "key"
        assert found.items()["key"].to_pylist() == keys
        assert np.array_equal(stored(found, "color palette"), stored(index, "color palette"))
        assert found.manifest.model.fingerprint == "stub:1"
        assert found.manifest.model.recommended_overall_penalty == 0.0  # there is no overall to penalise by
    renamed, _ = imported(tmp_path / "renamed", mood=tmp_path / "a.parquet?column=aspect-size")
    assert np.array_equal(stored(renamed, "mood"), stored(index, "size"))


@pytest.mark.parametrize("kind", ["<f2", "<f4", "<f8", ">f4", ">f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_any_floating_type_and_order(tmp_path: Path, kind: str, order: str) -> None:
    vectors = unit_vectors().astype(kind)
    np.save(tmp_path / "a.npy", np.asarray(vectors, order=order), allow_pickle=False)  # type: ignore[call-overload]
    found, summary = imported(tmp_path / "index", overall=tmp_path / "a.npy")
    assert np.array_equal(stored(found, "overall"), vectors.astype(np.float16).view(np.uint16))
    assert found.items()["key"].to_pylist()[:2] == ["000000", "000001"]
    assert summary.key is None
    assert_unit(found)


def test_overall_comes_first_and_every_aspect_has_its_vectors(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        np.save(tmp_path / f"{name}.npy", unit_vectors(seed=number), allow_pickle=False)
    found, _ = imported(tmp_path / "index", color_palette=tmp_path / "a.npy", overall=tmp_path / "b.npy")
    assert [aspect.text for aspect in found.aspects] == ["overall", "color palette"]
    assert np.array_equal(stored(found, "overall"), unit_vectors(seed=1).astype(np.float16).view(np.uint16))


def test_normalise_scales_vectors_of_any_length(tmp_path: Path) -> None:
    lengths = np.exp(np.linspace(-600, 600, COUNT))[:, None]  # whose squares no float64 holds
    np.save(tmp_path / "a.npy", unit_vectors().astype(np.float64) * lengths, allow_pickle=False)
    found, _ = imported(tmp_path / "index", overall=tmp_path / "a.npy", normalise=True)
    assert_unit(found)
    assert np.abs(np.concatenate(found.vectors("overall")) - unit_vectors()).max() < 1e-3


def test_a_laion_folder_of_eleven_files_keeps_its_order(tmp_path: Path) -> None:
    vectors, keys = unit_vectors(110), [f"photo {row}" for row in range(110)]
    for folder in ("img_emb", "metadata"):
        (tmp_path / "clip" / folder).mkdir(parents=True)
    for number in range(11):  # written as clip-retrieval writes them, without leading zeros
        rows = slice(10 * number, 10 * number + 10)
        np.save(tmp_path / "clip" / "img_emb" / f"img_emb_{number}.npy", vectors[rows], allow_pickle=False)
        frame = pandas.DataFrame({"image_path": keys[rows], "caption": keys[rows]})
        frame.to_parquet(tmp_path / "clip" / "metadata" / f"metadata_{number}.parquet")
    found, summary = imported(tmp_path / "index", overall=tmp_path / "clip")
    assert found.items()["key"].to_pylist() == keys
    assert found.items()["caption"].to_pylist() == keys
    assert np.array_equal(stored(found, "overall"), vectors.astype(np.float16).view(np.uint16))
    assert summary.key == "image_path"
    bare, _ = imported(tmp_path / "bare", overall=tmp_path / "clip" / "img_emb")
    assert bare.items()["key"].to_pylist() == keys


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.float16(), DIM)])
def test_a_column_of_lists_and_metadata_beside_it(tmp_path: Path, kind: pa.DataType) -> None:
    vectors = unit_vectors().astype(np.float16)
    lists = pa.array(vectors.astype(kind.value_type.to_pandas_dtype()).tolist(), kind)
    table = pa.table(
        {
            "id": list(range(COUNT)),
            "emb": lists,
            "width": [3] * COUNT,
            "tags": [["a"]] * COUNT,
            "day": pa.array([0] * COUNT, pa.date32()),
            "kind": pa.array(["x", "y"] * (COUNT // 2)).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=37)
    found, summary = imported(tmp_path / "index", overall=tmp_path / "a.parquet?key=id")
    assert np.array_equal(stored(found, "overall"), vectors.view(np.uint16))
    items = found.items()
    assert items["key"].to_pylist()[:3] == ["0", "1", "2"]
    assert items["meta_width"].to_pylist() == [3] * COUNT
    assert items["day"].to_pylist() == ["1970-01-01"] * COUNT
    assert items["kind"].to_pylist()[:2] == ["x", "y"]
    assert summary.left_out == ("tags",)


def test_keys_and_metadata_from_csv(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", unit_vectors(3), allow_pickle=False)
    (tmp_path / "ключи.csv").write_text("name;год;code\nжук;1900;007\nb;1901;008\nc;;009\n", encoding="utf-8")
    found, summary = imported(tmp_path / "index", keys=f"{tmp_path}/ключи.csv?key=name", overall=tmp_path / "a.npy")
    items = found.items()
    assert items["key"].to_pylist() == ["жук", "b", "c"]
    assert items["год"].to_pylist() == [1900, 1901, None]
    assert items["code"].to_pylist() == ["007", "008", "009"]
    assert summary.key == "name"


def test_pictures_are_found_in_their_folder_and_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "Bilder ü"
    (folder / "below").mkdir(parents=True)
    (folder / "a.png").write_bytes(picture_bytes(1))
    (folder / "below" / "b.png").write_bytes(picture_bytes(2))
    (tmp_path / "outside.png").write_bytes(picture_bytes(3))
    (folder / "link.png").symlink_to(tmp_path / "outside.png")
    names = ["a.png", "below/b.png", str(folder / "a.png"), "../outside.png", "link.png", "gone.png", "below", "a\0b"]
    np.save(tmp_path / "a.npy", unit_vectors(len(names)), allow_pickle=False)
    table = pa.table({"key": [f"k{row}" for row in range(len(names))], "image_path": names})
    pq.write_table(table, tmp_path / "keys.parquet")
    options = {"keys": tmp_path / "keys.parquet", "overall": tmp_path / "a.npy"}
    found, summary = imported(tmp_path / "index", pictures=folder, **options)
    items = found.items()
    assert items["file"].to_pylist() == ["a.png", "below/b.png", "a.png", "", "", "", "", ""]
    assert (summary.pictured, summary.missing, summary.missing_example) == (3, 5, "../outside.png")
    assert found.item_bytes(items.slice(1, 1).to_pylist()[0]) == picture_bytes(2)
    assert "image_path" not in items.column_names
    bare, _ = imported(tmp_path / "bare", **options)
    assert set(bare.items()["file"].to_pylist()) == {""}
    assert bare.items()["image_path"].to_pylist()[1:3] == ["below/b.png", None]  # no absolute path is kept
    assert str(tmp_path) not in (tmp_path / "bare" / "manifest.json").read_text()


def test_absolute_paths_become_keys_below_the_folder_of_pictures(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(picture_bytes(1))
    np.save(tmp_path / "a.npy", unit_vectors(1), allow_pickle=False)
    pq.write_table(pa.table({"image_path": [f"{tmp_path}/photos/a.png"]}), tmp_path / "keys.parquet")
    options = {"keys": tmp_path / "keys.parquet", "overall": tmp_path / "a.npy"}
    found, _ = imported(tmp_path / "index", pictures=tmp_path / "photos", **options)
    assert found.items()["key"].to_pylist() == ["a.png"]
    assert found.items()["file"].to_pylist() == ["a.png"]


def test_fingerprints_tell_vectors_apart(tmp_path: Path) -> None:
    for number in (0, 1):
        np.save(tmp_path / f"{number}.npy", unit_vectors(seed=number), allow_pickle=False)
    prints = [
        imported(tmp_path / f"index {name}", overall=tmp_path / f"{file}.npy", **options)[0].manifest.model.fingerprint
        for name, file, options in (
            ("a", 0, {}),
            ("again", 0, {}),
            ("other", 1, {}),
            ("named", 0, {"model_name": "x"}),
            ("p", 0, {"fingerprint": "f"}),
        )
    ]
    assert prints[0] == prints[1]
    assert prints[0].startswith("imported:")
    assert len(set(prints)) == 4
    assert prints[4] == "f"


def test_the_command_tells_what_is_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", unit_vectors(), allow_pickle=False)
    told = run_command("import-embeddings", "--out", tmp_path / "index", "--aspect", f"color palette={tmp_path}/a.npy")
    assert told.exit_code == 0
    for words in (
        "imported 150 images of 8 dimensions under color palette; numbered",
        "no pictures are known, so hits have none",
        "the model is not known",
        "there is no overall, so there can be no overall penalty",
        f"search it: tpips-index query {tmp_path}/index --term KEY:ASPECT",
    ):
        assert words in told.output


def test_verify_finds_nothing_wrong_with_imported_pictures(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/a.png").write_bytes(picture_bytes(1))
    np.save(tmp_path / "a.npy", unit_vectors(3), allow_pickle=False)
    pq.write_table(pa.table({"key": ["a", "b", "c"], "file": ["a.png", "gone.png", ""]}), tmp_path / "keys.parquet")
    imported(
        tmp_path / "index", keys=tmp_path / "keys.parquet", pictures=tmp_path / "photos", overall=tmp_path / "a.npy"
    )
    found = verify(VerifyConfig(tmp_path / "index", progress=False))
    assert found.ok, [check for check in found.checks if check.failed]


def test_an_aspect_given_twice_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", unit_vectors(3), allow_pickle=False)
    places = ("--aspect", f"overall={tmp_path}/a.npy", "--aspect", f"Overall={tmp_path}/b.npy")
    with pytest.raises(EmbeddingsError, match="'Overall' is given twice"):
        run_command("import-embeddings", "--out", tmp_path / "index", *places)
    assert not (tmp_path / "index").exists()


def test_an_aspect_with_characters_that_nobody_sees_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", unit_vectors(3), allow_pickle=False)
    with pytest.raises(AspectError, match=r"holds the invisible character U\+202E \(RIGHT-TO-LEFT OVERRIDE\)"):
        run_command("import-embeddings", "--out", tmp_path / "index", "--aspect", f"\u202edoom={tmp_path}/a.npy")
    assert not (tmp_path / "index").exists()
