from __future__ import annotations

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.columns import ITEM_SCHEMA, Item, concat_items, item_table

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text("aé猫 ", max_size=5)
METADATA = st.lists(st.dictionaries(st.sampled_from("abc"), SCALARS), min_size=1, max_size=6)


def items(metadata: list[dict]) -> list[Item]:
    return [Item(f"k{row}", "f", None, None, 1, 1, 1, values) for row, values in enumerate(metadata)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no fault of the code
@given(METADATA, METADATA)
def test_any_metadata_becomes_columns_and_no_value_changes_its_row(one: list[dict], other: list[dict]) -> None:
    table = concat_items([item_table(items(one)), item_table(items(other))])
    for column in set(table.column_names) - set(ITEM_SCHEMA.names):
        for stored, values in zip(table[column].to_pylist(), [*one, *other], strict=True):
            given_value = values.get(column)
            assert (stored is None) == (given_value is None)
            if isinstance(stored, str) and isinstance(given_value, str):
                assert stored == given_value
            elif isinstance(stored, int | float) and given_value is not None:
                assert stored == (given_value if isinstance(stored, int) else float(given_value))


def test_types_are_the_narrowest_that_hold_all_values() -> None:
    table = item_table(
        items(
            [
                {"flag": True, "count": 1, "share": 1, "mixed": 1, "large": 1 << 70, "name": "é", "none": None},
                {"flag": False, "count": None, "share": 0.5, "mixed": "x", "large": 2, "name": "\ud800"},
            ]
        )
    )
    types = {field.name: field.type for field in table.schema if field.name not in ITEM_SCHEMA.names}
    assert types == {
        "flag": pa.bool_(),
        "count": pa.int64(),
        "large": pa.string(),
        "mixed": pa.string(),
        "name": pa.string(),
        "share": pa.float64(),
    }
    assert table["mixed"].to_pylist() == ["1", "x"]
    assert table["name"].to_pylist() == ["é", "\\ud800"]


def test_parts_whose_types_differ_are_widened() -> None:
    tables = [item_table(items([{"a": value}])) for value in (1, 2.5, None)]
    assert concat_items(tables)["a"].to_pylist() == [1.0, 2.5, None]
    tables.append(item_table(items([{"a": True, "b": 1}])))
    assert concat_items(tables)["a"].to_pylist() == ["1", "2.5", None, "true"]
    assert concat_items(tables)["b"].to_pylist() == [None, None, None, 1]


def test_no_parts_give_the_fixed_columns_without_rows() -> None:
    assert concat_items([]) == ITEM_SCHEMA.empty_table()
