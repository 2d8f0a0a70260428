from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from indexer.directory import IndexDirectory
from indexer.exporting.export import export_index
from indexer.importing.config import ImportConfig
from indexer.importing.vector_input import EmbeddingsError
from indexer.importing.vectors import import_vectors
from indexer.verifying.vector_check import check_vectors
from tests.fixtures.exports import COUNT, DIM, exported_index, run_command, stored, unit_vectors
from tests.fixtures.imports import refused, saved, table
from tpips_model.aspects import Aspect
from tpips_model.errors import AspectError, TpipsError


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "a vector that is not finite in row 70 .*key '000070'"),
        (np.inf, "a vector that is not finite in row 70 "),
        (0.0, "a vector of zeros in row 70 .*no direction"),
        (0.7, r"a vector of length 1\.\d+ in row 70 .*unit length \(±0\.001\); add --normalise"),
    ],
)
@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_a_bad_vector_is_named(
    tmp_path: Path, value: float, message: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.importing.vectors.PART_VALUES", 40 * DIM)  # the second part
    vectors = unit_vectors()
    vectors[70] = value
    if form == "npy":
        place = saved(tmp_path / "a.npy", vectors)
    else:
        place = table(tmp_path / "a.parquet", emb=pa.array(vectors.tolist(), pa.list_(pa.float32())))
    refused(tmp_path, message, overall=place)


def test_normalise_does_not_hide_what_has_no_direction(tmp_path: Path) -> None:
    for value, message in ((np.nan, "not finite"), (0.0, "zeros")):
        vectors = unit_vectors()
        vectors[3] = value
        saved(tmp_path / "a.npy", vectors)
        config = ImportConfig(
            tmp_path / "out", ((Aspect("overall"), str(tmp_path / "a.npy")),), normalise=True, progress=False
        )
        with pytest.raises(EmbeddingsError, match=f"{message} in row 3 "):
            import_vectors(config)


def test_the_first_two_rows_of_one_key_are_named(tmp_path: Path) -> None:
    keys = [f"k{row}" for row in range(COUNT)]
    keys[140] = keys[9]
    keys[149] = keys[9]
    keys[77] = keys[12]
    place = saved(tmp_path / "a.npy", unit_vectors())
    told = "the key 'k12' twice, in rows 12 and 77 .*; 3 rows in all"
    refused(tmp_path, told, keys=table(tmp_path / "k.parquet", key=keys), overall=place)
    (tmp_path / "k.csv").write_text("key\n" + "\n".join(keys) + "\n")
    refused(tmp_path, told, keys=tmp_path / "k.csv", overall=place)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["a", None, "c"]), "no key in row 1 of its column 'key'"),
        (pa.array(["a", "", "c"]), "no key in row 1 "),
        (pa.array([1.5, 2.5, 3.5]), r"the key 1\.5, no text and no whole number, in row 0 "),
        (pa.array(["a", "/home/x.png", "c"]), None),
    ],
)
def test_keys_must_be_keys(tmp_path: Path, column: pa.Array, message: str | None) -> None:
    place = saved(tmp_path / "a.npy", unit_vectors(3))
    if message is not None:
        refused(tmp_path, message, keys=table(tmp_path / "k.parquet", key=column), overall=place)
    else:
        keys = table(tmp_path / "k.parquet", image_path=column)
        refused(
            tmp_path, "absolute paths as keys, such as '/home/x.png' in row 1.*--pictures", keys=keys, overall=place
        )


def test_rows_of_tables_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """The row shift: as many rows, one of them missing at the front and one added at the end."""
    keys = [f"k{row}" for row in range(COUNT)]
    emb = pa.array(unit_vectors().tolist(), pa.list_(pa.float32()))
    one = table(tmp_path / "a.parquet", key=keys, emb=emb)
    other = table(tmp_path / "b.parquet", key=[*keys[:60], *keys[61:], "new"], emb=emb)
    refused(tmp_path, "row 60 .* is 'k60' in .*a.parquet, and 'k61' in .*b.parquet", overall=one, style=other)
    shifted = table(tmp_path / "k.parquet", key=["new", *keys[:-1]])
    refused(tmp_path, "row 0 .* is 'new' in .*k.parquet, and 'k0'", keys=shifted, overall=one)


def test_counts_must_agree(tmp_path: Path) -> None:
    a, b = saved(tmp_path / "a.npy", unit_vectors(30)), saved(tmp_path / "b.npy", unit_vectors(29))
    refused(tmp_path, "different numbers of rows: 30 in .*a.npy, 29 in .*b.npy", overall=a, style=b)
    keys = table(tmp_path / "k.parquet", key=[f"k{row}" for row in range(31)])
    refused(tmp_path, "30 in .*a.npy, 31 in .*k.parquet", keys=keys, overall=a)
    wide = saved(tmp_path / "wide.npy", unit_vectors(30, 9))
    refused(tmp_path, "9 dimensions, and .*a.npy of 8", overall=a, style=wide)
    refused(tmp_path, "holds no vectors", overall=saved(tmp_path / "none.npy", np.empty((0, 8), np.float32)))


def test_files_of_a_laion_folder_must_fit_two_by_two(tmp_path: Path) -> None:
    clip = tmp_path / "clip"
    for folder in ("img_emb", "metadata"):
        (clip / folder).mkdir(parents=True)
    for number, rows in enumerate((10, 12)):
        saved(clip / "img_emb" / f"img_emb_{number}.npy", unit_vectors(rows))
        table(clip / "metadata" / f"metadata_{number}.parquet", key=[f"{number} {row}" for row in range(22 - rows)])
    refused(tmp_path, "img_emb_0.npy holds 10 vectors, and .*metadata_0.parquet 12 rows", overall=clip)
    (clip / "metadata" / "metadata_1.parquet").unlink()
    (clip / "img_emb" / "img_emb_0.npy").unlink()
    refused(tmp_path, "metadata_0.parquet has no vectors of its number", overall=clip)
    saved(clip / "img_emb" / "img_emb_01.npy", unit_vectors(3))
    refused(tmp_path, "img_emb_01.npy and img_emb_1.npy, which have one number", overall=clip)
    (clip / "img_emb" / "img_emb_01.npy").rename(clip / "img_emb" / "img_emb.npy")
    refused(tmp_path, "img_emb.npy has no number in its name", overall=clip)
    (clip / "img_emb" / "img_emb.npy").rename(clip / "img_emb" / "text_emb_7.npy")
    refused(tmp_path, "files of two kinds, img_emb_1.npy and text_emb_7.npy", overall=clip)
    (tmp_path / "empty").mkdir()
    refused(tmp_path, "empty holds no vectors", overall=tmp_path / "empty")


def test_a_csv_row_that_is_none_is_not_passed_over(tmp_path: Path) -> None:
    place = saved(tmp_path / "a.npy", unit_vectors(3))
    (tmp_path / "k.csv").write_text("key,year\na,1\nb\nc,3\n")
    refused(tmp_path, "the row has 1 fields, and the header 2, in row 1 ", keys=tmp_path / "k.csv", overall=place)


def test_places_that_are_none_are_refused(tmp_path: Path) -> None:
    place = saved(tmp_path / "a.npy", unit_vectors(3))
    (tmp_path / "a.txt").write_text("x")
    refused(tmp_path, "does not exist", overall=tmp_path / "gone.npy")
    refused(tmp_path, "holds no vectors that can be read; give an npy file", overall=tmp_path / "a.txt")
    refused(tmp_path, "is neither a csv nor a parquet file", keys=place, overall=place)
    refused(tmp_path, "does not exist", keys=tmp_path / "k.csv", overall=place)
    refused(tmp_path, "would share the name", error=AspectError, color_palette=place, **{"color-palette": place})
    for arguments, message in (
        ((), "nothing is given to import"),
        (("--aspect", "overall"), "does not say where the vectors are"),
        (("--from", tmp_path), "is no export of tpips-index"),
        (("--aspect", f"x={place}", "--aspect", f"x={place}"), "'x' is given twice"),
        (("--aspect", f"x={place}", "--pictures", tmp_path / "gone"), "folder of pictures .* does not exist"),
    ):
        with pytest.raises(EmbeddingsError, match=message):
            run_command("import-embeddings", "--out", tmp_path / "out", *arguments)


def test_an_index_is_never_overwritten(tmp_path: Path) -> None:
    place = saved(tmp_path / "a.npy", unit_vectors(3))
    index = exported_index(tmp_path / "index")
    before = (index / "manifest.json").read_bytes()
    with pytest.raises(EmbeddingsError, match=r"there is an index at .* already"):
        run_command("import-embeddings", "--out", index, "--aspect", f"overall={place}")
    with pytest.raises(TpipsError, match="holds something that is no index"):
        run_command("import-embeddings", "--out", tmp_path, "--aspect", f"overall={place}")
    assert (index / "manifest.json").read_bytes() == before


def test_vectors_of_two_models_are_not_put_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        index = IndexDirectory.open(exported_index(tmp_path / name, fingerprint=name))
        export_index(index, tmp_path / f"{name}.parquet", layout="parquet", progress=False)
    one, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    refused(tmp_path, "made by different models .fingerprints a and b", overall=one, style=other)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"width": 0}, "0×8 pixels large, in 1 bytes of '000004.png'; export anew"),
        ({"height": 0}, "8×0 pixels large"),
        ({"width": -1}, "-1×8 pixels large"),
        ({"height": 1 << 31}, "8×2147483648 pixels large"),
        ({"size": -1}, "in -1 bytes"),
        ({"width": 0, "height": 0}, None),
    ],
)
def test_pictures_of_an_export_have_both_sides_or_unknown_ones(
    tmp_path: Path, changed: dict[str, int], told: str | None
) -> None:
    index = IndexDirectory.open(exported_index(tmp_path / "index"))
    place = tmp_path / "a.parquet"
    export_index(index, place, layout="parquet", progress=False)
    rows = pq.read_table(place)
    for name, value in changed.items():
        column = rows[name].to_pylist()
        column[4] = value
        rows = rows.set_column(rows.column_names.index(name), name, pa.array(column, pa.int64()))
    pq.write_table(rows, place)
    if told is not None:
        return refused(tmp_path, f"damaged in row 4 .*of 'picture-000004' that it is .*{told}", overall=place)
    import_vectors(ImportConfig(tmp_path / "out", ((Aspect("overall"), str(place)),), progress=False))
    found = IndexDirectory.open(tmp_path / "out", verify=True)
    check_vectors(found)
    assert found.items(["width", "height"]).slice(3, 2).to_pylist() == [{"width": 8, "height": 8}, changed]


def test_an_import_that_was_interrupted_is_no_index_and_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.importing.vectors.PART_VALUES", 40 * DIM)
    place = saved(tmp_path / "a.npy", unit_vectors())
    with monkeypatch.context() as patch:
        patch.setattr("indexer.importing.vectors.write_manifest", _interrupt)
        told = run_command("import-embeddings", "--out", tmp_path / "index", "--aspect", f"overall={place}")
        assert told.exit_code == 130
        assert "there is no index yet, and the same command begins anew" in told.output
    with pytest.raises(TpipsError, match="holds no finished index"):
        IndexDirectory.open(tmp_path / "index")
    run_command("import-embeddings", "--out", tmp_path / "index", "--aspect", f"overall={place}")
    found = IndexDirectory.open(tmp_path / "index", verify=True)
    assert np.array_equal(stored(found, "overall"), unit_vectors().astype(np.float16).view(np.uint16))


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
