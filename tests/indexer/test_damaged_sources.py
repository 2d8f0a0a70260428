"""Two hundred damaged inputs: none stops a build, and every one is indexed right or stands in the ledger."""

from __future__ import annotations

import gzip
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from indexer.directory import IndexDirectory
from tests.fixtures.built_sources import build_index, stored_pictures
from tests.fixtures.indices import StubEmbedder
from tests.fixtures.picture_folders import picture_bytes
from tests.fixtures.picture_tables import IMAGE, write_csv
from tests.fixtures.pictures import encoded, png
from tests.fixtures.tars import write_tar
from tpips_model.errors import ImageError
from tpips_model.images import to_rgb

COUNT = 200
WHOLE = {form: picture_bytes(7, width=64, height=48, format=form) for form in ("JPEG", "PNG", "WEBP", "GIF", "TIFF")}


def odd_pictures() -> Iterator[bytes]:
    """Give pictures of unusual kinds and bytes that are none, over and over, each time with other damage."""
    chance = random.Random(6)
    pixels = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))
    exif = Image.Exif()
    exif[0x0112] = 6
    while True:
        for data in WHOLE.values():
            yield data[: chance.randrange(len(data))]  # cut short
            at = chance.randrange(len(data))
            yield data[:at] + chance.randbytes(4) + data[at + 4 :]  # overwritten
        yield b""
        yield b"\0" * chance.randrange(1, 3000)
        yield b"this is text\n" * chance.randrange(1, 99)
        yield png(60_000, 60_000)  # a bomb
        yield gzip.compress(WHOLE["PNG"])
        yield encoded(pixels.convert("CMYK"), "JPEG")
        yield encoded(pixels, "JPEG", exif=exif.tobytes() + b"?" * chance.randrange(9))
        yield encoded(Image.fromarray(np.full((3, 5), chance.randrange(65536), np.uint16)), "PNG")
        yield encoded(pixels, "GIF", save_all=True, append_images=[pixels.transpose(Image.Transpose.ROTATE_90)])
        yield b"<html>404</html>"


def pictures(count: int = COUNT) -> list[bytes]:
    source = odd_pictures()
    return [next(source) for _ in range(count)]


def in_folder(root: Path, given: list[bytes]) -> tuple[str, list[str]]:
    for number, data in enumerate(given):
        (root / f"{number:03d}.jpg").write_bytes(data)
    return f"folder:{root}", [f"{number:03d}.jpg" for number in range(len(given))]


def in_tar(root: Path, given: list[bytes]) -> tuple[str, list[str]]:
    write_tar(root / "0.tar", [(f"{number:03d}.jpg", data) for number, data in enumerate(given)])
    return f"webdataset:{root}/0.tar", [f"0/{number:03d}" for number in range(len(given))]


def in_packed_tar(root: Path, given: list[bytes]) -> tuple[str, list[str]]:
    data, keys = in_tar(root, given)
    (root / "0.tar.gz").write_bytes(gzip.compress((root / "0.tar").read_bytes()))
    (root / "0.tar").unlink()
    return f"{data}.gz", keys


def in_parquet(root: Path, given: list[bytes]) -> tuple[str, list[str]]:
    cells = [{"bytes": data, "path": None} for data in given]
    pq.write_table(pa.table({"image": pa.array(cells, IMAGE)}), root / "0.parquet", row_group_size=30)
    return f"parquet:{root}/0.parquet", [f"0/{row}" for row in range(len(given))]


def in_csv(root: Path, given: list[bytes]) -> tuple[str, list[str]]:
    _, keys = in_folder(root, given)
    return f"csv:{write_csv(root / 'a.csv', [['path', 'n'], *([key, key] for key in keys)])}", keys


@pytest.mark.parametrize("layout", [in_folder, in_tar, in_packed_tar, in_parquet, in_csv])
def test_every_damaged_picture_is_indexed_right_or_in_the_ledger(
    tmp_path: Path, layout: Callable[[Path, list[bytes]], tuple[str, list[str]]]
) -> None:
    (tmp_path / "data").mkdir()
    given = pictures()
    data, keys = layout(tmp_path / "data", given)
    index = build_index(data, tmp_path / "index", shard_size=37)
    by_key = dict(zip(keys, given, strict=True))
    indexed, refused = index.items(["key"])["key"].to_pylist(), index.errors()["key"].to_pylist()
    assert sorted([*indexed, *refused]) == sorted(keys)
    assert 40 < len(refused) < 180
    assert stored_pictures(index) == {key: by_key[key] for key in indexed}
    for key in refused:
        with pytest.raises(ImageError, match="cannot read image"):
            to_rgb(by_key[key])
    check_rows(index, by_key)


def check_rows(index: IndexDirectory, by_key: dict[str, bytes]) -> None:
    """Check that each row's vector and size are those of its own picture."""
    rows = index.items(["key", "width", "height"]).to_pylist()
    aspect = index.indexed_aspect("brushwork")
    vectors = np.concatenate(index.vectors(aspect)).astype(np.float32)
    expected = StubEmbedder().embed([by_key[row["key"]] for row in rows], [aspect])[:, 0]
    assert np.abs(vectors - expected).max() < 2e-3
    assert [(row["width"], row["height"]) for row in rows] == [to_rgb(by_key[row["key"]]).size for row in rows]


@pytest.mark.parametrize("seed", range(6))
def test_tables_with_repeated_and_empty_keys_lose_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    count = 12
    keys = [chance.choice(["a", "b", "c", "", None, " ", "é\n", "/x/../y"]) for _ in range(count)]
    cells = [{"bytes": picture_bytes(number), "path": None} for number in range(count)]
    pq.write_table(pa.table({"image": pa.array(cells, IMAGE), "id": keys}), tmp_path / "0.parquet", row_group_size=5)
    index = build_index(f"parquet:{tmp_path}/0.parquet?key=id", tmp_path / "index", shard_size=5)
    assert index.rows + index.errors().num_rows == count
    named = [key for key in keys if key]
    assert index.rows == len(set(named))
    firsts = {key.replace("\n", "\\n"): picture_bytes(keys.index(key)) for key in named}
    assert stored_pictures(index) == firsts
    before = index.manifest
    assert build_index(f"parquet:{tmp_path}/0.parquet?key=id", tmp_path / "index", shard_size=3).manifest == before


@pytest.mark.parametrize("seed", range(12))
def test_archives_cut_or_overwritten_anywhere_never_stop_a_build(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    plain = write_tar(tmp_path / "x", [(f"{n}.png", picture_bytes(n, width=30)) for n in range(5)]).read_bytes()
    data = gzip.compress(plain) if seed % 2 else plain
    at = chance.randrange(1500, len(data))
    data = data[:at] if seed % 3 else data[:at] + chance.randbytes(20) + data[at + 20 :]
    (tmp_path / "d").mkdir()
    write_tar(tmp_path / "d/1.tar", [("good.png", picture_bytes(99))])
    (tmp_path / f"d/0.tar{'.gz' if seed % 2 else ''}").write_bytes(data)
    index = build_index(f"webdataset:{tmp_path}/d", tmp_path / "index")
    found = stored_pictures(index)
    assert found.pop("1/good") == picture_bytes(99)
    for key, picture in found.items():
        assert io.BytesIO(picture).read(4) == b"\x89PNG"
        assert key in {f"0/{n}" for n in range(5)}
    told = {row["key"] for row in index.errors().to_pylist()}
    whole = {key for key, picture in found.items() if picture == picture_bytes(int(key[2:]), width=30)}
    # Whatever is not there whole is told of: by its own key, or by a line on the archive that breaks off.
    assert whole == {f"0/{n}" for n in range(5)} or told
