from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.file_names import (
    codes_file,
    errors_file,
    items_file,
    quantizer_file,
    removed_file,
    thumbnails_file,
    vectors_file,
)
from indexer.manifest import (
    FileRecord,
    IndexDirectoryError,
    Manifest,
    ModelRecord,
    PartRecord,
    SourceRecord,
)
from indexer.manifest_parsing import parse_manifest
from tpips_model import OVERALL, Aspect

BRUSHWORK = Aspect("brushwork")


def a_part(number: int, *aspects: Aspect) -> PartRecord:
    names = [*(vectors_file(aspect, number) for aspect in aspects), errors_file(number), items_file(number)]
    files = {name: FileRecord(bytes=number + place, sha256=f"{place:064x}") for place, name in enumerate(names)}
    return PartRecord(id=number, shards=(f"shard-{number}",), rows=3, errors=1, files=files)


def a_manifest(*parts: PartRecord) -> Manifest:
    model = ModelRecord("stub", "stub:1", 16, "similar by {aspect}", 0.25)
    aspects = (OVERALL, BRUSHWORK)
    return Manifest(model, (SourceRecord("folder", "../Bilder é"),), aspects, parts or (a_part(0, *aspects),))


def a_living_manifest() -> Manifest:
    """Return a manifest with several sources, tombstones, a rewritten ledger, and all that is optional."""
    file = FileRecord(bytes=5, sha256="0" * 64)
    first, second = a_part(0, OVERALL, BRUSHWORK), a_part(7, OVERALL, BRUSHWORK)
    files = {name: record for name, record in second.files.items() if not name.startswith("errors/")}
    files |= {errors_file(7, 2): file, removed_file(7, 3): file, thumbnails_file(7): file}
    second = replace(second, shards=("//1/a.tar", "//1/b.tar"), removed=3, files=files)
    manifest = a_manifest(first, second)
    sources = (*manifest.sources, SourceRecord("webdataset", "../more", "more"))
    return replace(manifest, sources=sources, epoch=4, slice=(2, 8), thumbnail_side=256)


def damaged(**changes: Any) -> str:
    record = json.loads(a_manifest().to_json())
    for path, value in changes.items():
        *steps, last = path.split("__")
        place = record
        for step in steps:
            place = place[int(step) if step.isdigit() else step]
        place[last] = value
    return json.dumps(record)


def test_text_round_trips_and_is_one_line_of_keys_in_order() -> None:
    manifest = a_manifest()
    text = manifest.to_json()
    assert parse_manifest(text) == manifest
    assert parse_manifest(text).to_json() == text
    assert list(json.loads(text)) == ["format", "format_version", "model", "sources", "aspects", "parts"]
    assert text.endswith("}\n")
    assert "../Bilder é" in text


def test_an_index_that_has_lived_round_trips() -> None:
    manifest = a_living_manifest()
    assert parse_manifest(manifest.to_json()) == manifest
    assert manifest.live == 3
    part = manifest.parts[1]
    assert (part.source, part.live, part.ledger_file) == (1, 0, "errors/part-00007.2.parquet")
    assert part.removal_file == "removed/part-00007.3.npy"


def test_tombstones_are_at_most_the_rows() -> None:
    record = json.loads(a_living_manifest().to_json())
    record["parts"][1]["rows"] = 2
    with pytest.raises(IndexDirectoryError, match="3 of 2 rows of part 7 are removed"):
        parse_manifest(json.dumps(record))


@pytest.mark.parametrize("prefix", ["a\nb", "/a", "a/", "\ud800"])
def test_a_prefix_that_no_source_can_have_is_refused(prefix: str) -> None:
    record = json.loads(a_living_manifest().to_json())
    record["sources"][1]["prefix"] = prefix
    with pytest.raises(IndexDirectoryError, match=r'"prefix" is .*, which (no source can have|has no UTF-8 form)'):
        parse_manifest(json.dumps(record))


def test_two_ledgers_of_one_part_are_refused() -> None:
    record = json.loads(a_living_manifest().to_json())
    record["parts"][1]["files"][errors_file(7)] = {"bytes": 1, "sha256": "0" * 64}
    with pytest.raises(IndexDirectoryError, match="which no part may have"):
        parse_manifest(json.dumps(record))


def test_text_does_not_depend_on_the_order_in_which_files_were_added() -> None:
    part = a_part(0, OVERALL, BRUSHWORK)
    backwards = PartRecord(part.id, part.shards, part.rows, part.errors, dict(reversed(part.files.items())))
    assert a_manifest(part).to_json() == a_manifest(backwards).to_json()


def test_an_aspect_is_complete_when_every_part_has_it() -> None:
    manifest = a_manifest(a_part(0, OVERALL, BRUSHWORK), a_part(1, OVERALL))
    assert manifest.complete_aspects == (OVERALL,)


def a_coded_manifest() -> Manifest:
    file = FileRecord(bytes=5, sha256="0" * 64)
    manifest = a_manifest(a_part(0, OVERALL, BRUSHWORK), a_part(1, OVERALL, BRUSHWORK))
    coded = {0: (OVERALL, BRUSHWORK), 1: (OVERALL,)}
    parts = [
        replace(
            part,
            files={**dict.fromkeys((codes_file(aspect, part.id) for aspect in coded[part.id]), file), **part.files},
        )
        for part in manifest.parts
    ]
    quantizers = dict.fromkeys(map(quantizer_file, (BRUSHWORK, OVERALL)), file)
    return replace(manifest, parts=tuple(parts), quantizers=quantizers)


def test_an_aspect_is_coded_when_every_part_has_its_codes() -> None:
    manifest = a_coded_manifest()
    assert (manifest.complete_aspects, manifest.coded_aspects) == ((OVERALL, BRUSHWORK), (OVERALL,))
    assert replace(manifest, quantizers={}).coded_aspects == ()


def test_codes_stand_behind_all_else_and_leave_no_trace_where_there_are_none() -> None:
    manifest = a_coded_manifest()
    text = manifest.to_json()
    assert parse_manifest(text) == manifest
    record = json.loads(text)
    assert list(record)[-1] == "quantizers"
    assert list(record["quantizers"]) == [quantizer_file(OVERALL), quantizer_file(BRUSHWORK)]
    assert list(record["parts"][0]["files"])[-2:] == [codes_file(OVERALL, 0), codes_file(BRUSHWORK, 0)]
    assert "quantizer" not in a_manifest().to_json()


def test_codes_need_a_quantizer_and_quantizers_an_aspect() -> None:
    record = json.loads(a_coded_manifest().to_json())
    del record["quantizers"][quantizer_file(BRUSHWORK)]
    with pytest.raises(IndexDirectoryError, match=r"part 0 name .*brushwork/part-00000.codes.npy', which no part may"):
        parse_manifest(json.dumps(record))
    record = json.loads(a_manifest().to_json())
    record["quantizers"] = {"aspects/lighting/quantizer.safetensors": {"bytes": 1, "sha256": "0" * 64}}
    with pytest.raises(IndexDirectoryError, match=r"an aspect name the file .*lighting.*, which no aspect may have"):
        parse_manifest(json.dumps(record))


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "items/../../x.parquet",
        "items/part-00001.parquet",  # another part's
        "aspects/lighting/part-00000.npy",  # an aspect that the index does not have
        "aspects/../overall/part-00000.npy",
        "manifest.json",
    ],
)
def test_a_file_that_no_part_may_have_is_refused(name: str) -> None:
    record = json.loads(a_manifest().to_json())
    record["parts"][0]["files"][name] = {"bytes": 1, "sha256": "0" * 64}
    with pytest.raises(IndexDirectoryError, match="which no part may have"):
        parse_manifest(json.dumps(record))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "damaged .no valid JSON"),
        ("[" * 100_000, "damaged .no valid JSON"),
        ("[]", "is not of a tpips-index"),
        (damaged(format="other"), "is not of a tpips-index"),
        (damaged(format_version=3), "format version 3, and this program reads version 2; update tpips-retrieval"),
        (damaged(format_version=1), "version 1, and this program reads version 2; build the index anew"),
        (damaged(format_version="1"), '"format_version" should be int'),
        (damaged(model__dim=0), '"dim" is 0'),
        (damaged(model__dim=True), '"dim" should be int'),
        (damaged(model__name=None), '"name" should be str'),
        (damaged(aspects__0__slug="../overall"), "slug '../overall', which should be 'overall'"),
        (damaged(aspects__0__text=""), "an aspect that is none"),
        (damaged(aspects=[{"text": "overall", "slug": "overall"}] * 2), "names an aspect twice"),
        (damaged(parts__0__rows=-1), '"rows" is -1'),
        (damaged(parts__0__files={}), "part 0 lacks items/part-00000.parquet"),
        (damaged(parts=[json.loads(a_manifest().to_json())["parts"][0]] * 2), "two parts of one id"),
        (damaged(quantizers=[]), '"quantizers" should be dict'),
        (damaged(sources="folder"), '"sources" should be list'),
        (damaged(sources=[]), "its sources cannot be told apart"),
        (damaged(sources__0__prefix="more"), "its sources cannot be told apart"),
        (damaged(sources=[None]), '"root" should be str'),
        (damaged(parts__0__shards=[]), "part 0 comes from no one source"),
        (damaged(parts__0__shards=["a", 3]), '"shard" should be str'),
        (damaged(parts__0__shards=["//1/a"]), "part 0 comes from no one source"),
        (damaged(parts__0__shards=["a", "a"]), "two parts of one shard"),
        (damaged(parts__0__removed=2), "part 0 lacks removed/part-00000.2.npy"),
        (damaged(parts__0__removed=-1), '"removed" is -1'),
        (damaged(epoch=-1), '"epoch" is -1'),
        (damaged(slice=[3, 2]), r"its slice is \[3, 2\]"),
        (damaged(slice="1/2"), '"slice" should be list'),
        (damaged(slice=[True, 1]), r"its slice is \[True, 1\]"),
        (damaged(epoch=10**300), '"epoch" is 1e.300, where 0 to '),
        (damaged(thumbnail_side=0), '"thumbnail_side" is 0, where 32 to 1024 is expected'),
        (damaged(thumbnail_side=2000), '"thumbnail_side" is 2000, where 32 to 1024 is expected'),
        (damaged(model__recommended_overall_penalty=10**400), '"recommended_overall_penalty" should be a finite'),
        (damaged(model__recommended_overall_penalty=float("nan")), '"recommended_overall_penalty" should be a finite'),
        (damaged(model__recommended_overall_penalty=-float("inf")), '"recommended_overall_penalty" should be a finite'),
        (damaged(sources__0__root="a\0b"), '"root" is .*, which no folder can be'),
        (damaged(sources__0__root="a\ud800"), '"root" is .*, which has no UTF-8 form'),
        (damaged(sources__0__kind="\udcff"), '"kind" is .*, which has no UTF-8 form'),
    ],
)
def test_damage_is_named(text: str, message: str) -> None:
    with pytest.raises(IndexDirectoryError, match=message):
        parse_manifest(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault of the code
@given(data=st.data())
def test_no_damage_raises_anything_else(data: st.DataObject) -> None:
    record = copy.deepcopy(json.loads(data.draw(st.sampled_from([a_coded_manifest, a_living_manifest]))().to_json()))
    place = record
    while True:
        step = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if not isinstance(place[step], dict | list) or not place[step] or data.draw(st.booleans()):
            break
        place = place[step]
    place[step] = data.draw(JSON)
    try:
        manifest = parse_manifest(json.dumps(record))
    except IndexDirectoryError:
        return
    assert parse_manifest(manifest.to_json()) == manifest
