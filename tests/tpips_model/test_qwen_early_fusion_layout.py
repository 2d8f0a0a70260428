"""Early fusion's mask and positions, against the rules of Appendix C.2 written out one token at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tpips_model.qwen.early_fusion_layout import Segment, attention_mask, left_padded, position_ids, token_segments

PATCH = 99
examples = settings(max_examples=30, deadline=None)
grids = st.tuples(st.integers(1, 4), st.integers(1, 4))
texts = st.integers(1, 5)
layouts = st.tuples(texts, grids, texts, grids, texts)


def segments_of(before: int, a: tuple[int, int], between: int, b: tuple[int, int], after: int) -> list[int]:
    tokens = [1] * before + [PATCH] * (a[0] * a[1]) + [2] * between + [PATCH] * (b[0] * b[1]) + [3] * after
    return token_segments(tokens, PATCH)


def may_attend(query: int, key: int, query_step: int, key_step: int) -> bool:
    """The rules of Appendix C.2, with the release's: a register sees itself."""
    if query == Segment.PADDING or key == Segment.PADDING:
        return query_step == key_step
    if query == Segment.TEXT:
        return key == Segment.TEXT and key_step <= query_step
    if query in (Segment.IMAGE_A, Segment.IMAGE_B):
        return key in (Segment.TEXT, Segment.IMAGE_A, Segment.IMAGE_B)
    own = Segment.IMAGE_A if query == Segment.REGISTER_A else Segment.IMAGE_B
    return key in (Segment.TEXT, own) or key_step == query_step


def positions_of(row: list[int], a: tuple[int, int], b: tuple[int, int]) -> torch.Tensor:
    return position_ids(torch.tensor([row]), torch.tensor([a[1]]), torch.tensor([b[1]]))[:, 0]


@examples
@given(layouts, st.integers(0, 3))
def test_mask_follows_the_rules(layout: tuple, padding: int) -> None:
    row = [int(Segment.PADDING)] * padding + segments_of(*layout)
    mask = attention_mask(torch.tensor([row]))[0, 0]
    expected = [[may_attend(q, k, i, j) for j, k in enumerate(row)] for i, q in enumerate(row)]
    assert mask.tolist() == expected
    assert mask.any(1).all(), "a query without a key gives NaN"


@examples
@given(layouts)
def test_swapping_the_images_permutes_mask_and_positions(layout: tuple) -> None:
    before, a, between, b, after = layout
    row, swapped = segments_of(before, a, between, b, after), segments_of(before, b, between, a, after)
    partner = {Segment.IMAGE_A: Segment.IMAGE_B, Segment.REGISTER_A: Segment.REGISTER_B}
    partner |= {value: key for key, value in partner.items()}
    # order[i]: where token i of (a, b) stands in (b, a).
    order = []
    for step, segment in enumerate(row):
        rank = row[:step].count(segment)
        wanted = partner.get(Segment(segment), segment)
        order.append([j for j, other in enumerate(swapped) if other == wanted][rank])
    index = torch.tensor(order)
    mask, mask_swapped = attention_mask(torch.tensor([row]))[0, 0], attention_mask(torch.tensor([swapped]))[0, 0]
    assert torch.equal(mask, mask_swapped[index][:, index])
    assert torch.equal(positions_of(row, a, b), positions_of(swapped, b, a)[:, index])


@examples
@given(layouts)
def test_positions_follow_the_rules(layout: tuple) -> None:
    before, a, between, b, after = layout
    row = segments_of(*layout)
    positions = positions_of(row, a, b).T.tolist()
    by_segment = {s: [p for p, seg in zip(positions, row, strict=True) if seg == s] for s in Segment}
    number_of_texts = before + between + after
    assert by_segment[Segment.TEXT] == [[t, 0, 0] for t in range(1, number_of_texts + 1)]
    assert by_segment[Segment.IMAGE_A] == [[0, 2 * h, 2 * w] for h in range(a[0]) for w in range(a[1])]
    assert by_segment[Segment.IMAGE_B] == [[0, 2 * h, 2 * w] for h in range(b[0]) for w in range(b[1])]
    register = [number_of_texts + 1, 0, 0]
    assert by_segment[Segment.REGISTER_A] == by_segment[Segment.REGISTER_B] == [register]


@examples
@given(layouts, layouts)
def test_a_row_does_not_depend_on_its_companions(first: tuple, second: tuple) -> None:
    rows = [segments_of(*first), segments_of(*second)]
    padded = left_padded(rows)
    masks = attention_mask(padded)
    columns_a, columns_b = (torch.tensor([layout[i][1] for layout in (first, second)]) for i in (1, 3))
    positions = position_ids(padded, columns_a, columns_b)
    for number, (row, layout) in enumerate(zip(rows, (first, second), strict=True)):
        own = attention_mask(torch.tensor([row]))[0, 0]
        assert torch.equal(masks[number, 0, -len(row) :, -len(row) :], own)
        assert not masks[number, 0, -len(row) :, : -len(row)].any(), "nothing attends to padding"
        assert torch.equal(positions[:, number, -len(row) :], positions_of(row, layout[1], layout[3]))
    assert padded[:, -2:].tolist() == [[Segment.REGISTER_A, Segment.REGISTER_B]] * 2


@pytest.mark.parametrize(("tokens", "runs"), [([1, 2], 0), ([1, PATCH, 2], 1), ([1, PATCH, 2, PATCH, 2, PATCH], 3)])
def test_only_two_images_fit(tokens: list[int], runs: int) -> None:
    with pytest.raises(ValueError, match=f"holds {runs} runs of patches"):
        token_segments(tokens, PATCH)
