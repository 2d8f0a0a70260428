"""What the paper measured, as literal tables: Tables 3, 4 and 5, all in per cent, ± standard error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from train.evaluation.judges import ModelRow

__all__ = [
    "HUMAN_CONSENSUS",
    "TABLE_3",
    "TABLE_3_COLUMNS",
    "TABLE_4",
    "TABLE_4_COLUMNS",
    "TABLE_5",
    "paper_figure",
    "paper_rows",
]

MeanAndError = tuple[float, float]
FamilyAndSize = tuple[str, str]

TABLE_3_COLUMNS = ("Odd-One-Out", "Editing", "Composite", "NVS", "Im-to-3D", "Total")
# fmt: off
# type -> (family, size) -> one figure a column; "Ours" is the authors'.
TABLE_3: Mapping[str, Mapping[FamilyAndSize, tuple[MeanAndError | None, ...]]] = {
    "Classic": {
        ("LPIPS", "62M"): ((46.2, 0.2), (62.2, 1.0), (69.4, 1.3), (96.9, 0.5), (65.9, 1.0), (69.5, 0.6)),
        ("DreamSim", "258M"): ((50.5, 0.2), (63.7, 1.0), (67.0, 1.4), (96.6, 0.5), (75.8, 0.9), (72.9, 0.5)),
    },
    "Triplet": {
        ("GPT-5.4", "–"): ((57.6, 0.2), (69.4, 1.0), (78.6, 1.1), (96.6, 0.5), (78.5, 0.8), (77.9, 0.5)),
        ("Gemini-3.1-Pro", "–"): ((62.0, 0.2), (70.6, 0.9), (74.6, 1.2), (96.1, 0.6), (74.4, 0.9), (76.1, 0.5)),
        ("InternVL3.5", "1B"): ((38.9, 0.2), (50.6, 1.1), (50.8, 1.5), (54.5, 1.9), (51.0, 1.1), (51.3, 0.6)),
        ("InternVL3.5", "2B"): ((40.0, 0.2), (52.7, 1.1), (63.0, 1.4), (66.2, 1.8), (56.7, 1.1), (57.7, 0.6)),
        ("InternVL3.5", "4B"): ((53.9, 0.2), (60.4, 1.0), (63.6, 1.4), (77.1, 1.6), (71.5, 0.9), (67.1, 0.6)),
        ("InternVL3.5", "8B"): ((53.3, 0.2), (61.9, 1.0), (69.3, 1.3), (92.4, 0.9), (68.2, 1.0), (69.6, 0.6)),
        ("InternVL3.5", "14B"): ((56.0, 0.2), (63.3, 1.0), (71.5, 1.3), (86.5, 1.2), (76.6, 0.9), (72.5, 0.6)),
        ("LLAVA-OV", "0.5B"): ((45.2, 0.2), (53.7, 1.1), (51.3, 1.5), (68.5, 1.8), (51.1, 1.1), (54.4, 0.6)),
        ("LLAVA-OV", "7B"): ((53.9, 0.2), (62.7, 1.0), (69.7, 1.3), (86.9, 1.2), (77.1, 0.9), (72.2, 0.6)),
        ("Qwen3-VL", "2B"): ((47.8, 0.2), (58.4, 1.1), (64.1, 1.4), (91.5, 1.0), (68.3, 1.0), (67.3, 0.6)),
        ("Qwen3-VL", "4B"): ((56.1, 0.2), (64.0, 1.0), (67.1, 1.4), (95.4, 0.7), (77.3, 0.9), (73.4, 0.5)),
        ("Qwen3-VL", "8B"): ((57.1, 0.2), (63.8, 1.0), (68.1, 1.3), (95.1, 0.7), (78.6, 0.8), (73.9, 0.5)),
        ("Ours", "8B"): ((65.0, 0.2), None, None, None, None, None),
    },
    "Early Fusion": {
        ("GPT-5.4", "–"): ((55.5, 0.2), (67.0, 1.0), (73.8, 1.2), (96.8, 0.5), (71.3, 1.0), (73.7, 0.5)),
        ("Gemini-3.1-Pro", "–"): ((58.4, 0.2), (65.5, 1.0), (66.5, 1.4), (90.8, 1.0), (70.1, 1.0), (70.7, 0.6)),
        ("InternVL3.5", "1B"): ((45.4, 0.2), (57.2, 1.1), (69.8, 1.3), (88.7, 1.1), (63.2, 1.0), (65.8, 0.6)),
        ("InternVL3.5", "2B"): ((46.3, 0.2), (61.5, 1.0), (70.7, 1.3), (82.3, 1.4), (72.6, 0.9), (69.8, 0.6)),
        ("InternVL3.5", "4B"): ((53.1, 0.2), (57.9, 1.1), (71.1, 1.3), (25.2, 1.6), (74.5, 0.9), (61.5, 0.6)),
        ("InternVL3.5", "8B"): ((53.5, 0.2), (60.2, 1.0), (64.6, 1.4), (45.4, 1.9), (75.4, 0.9), (64.2, 0.6)),
        ("InternVL3.5", "14B"): ((54.2, 0.2), (55.5, 1.1), (53.9, 1.5), (23.6, 1.6), (73.2, 0.9), (57.0, 0.6)),
        ("LLAVA-OV", "0.5B"): ((30.1, 0.2), (51.0, 1.1), (51.1, 1.5), (65.7, 1.8), (35.7, 1.0), (47.7, 0.6)),
        ("LLAVA-OV", "7B"): ((44.5, 0.2), (57.7, 1.1), (62.0, 1.4), (69.4, 1.7), (72.7, 0.9), (65.2, 0.6)),
        ("Qwen3-VL", "2B"): ((51.0, 0.2), (60.4, 1.0), (68.7, 1.3), (93.1, 0.9), (74.3, 0.9), (71.1, 0.6)),
        ("Qwen3-VL", "4B"): ((55.1, 0.2), (61.1, 1.0), (70.4, 1.3), (88.5, 1.2), (76.1, 0.9), (71.6, 0.6)),
        ("Qwen3-VL", "8B"): ((54.5, 0.2), (55.4, 1.1), (56.5, 1.5), (47.3, 1.9), (69.0, 1.0), (59.2, 0.6)),
        ("Ours", "8B"): ((64.7, 0.2), (72.5, 0.9), (75.6, 1.2), (96.6, 0.5), (81.2, 0.8), (79.3, 0.5)),
    },
    "Mid-Fusion": {
        ("Qwen3-VL-Emb", "2B"): ((43.9, 0.2), (61.4, 1.0), (72.0, 1.3), (96.6, 0.5), (69.9, 1.0), (71.0, 0.6)),
        ("Qwen3-VL-Emb", "8B"): ((44.0, 0.2), (61.5, 1.0), (71.3, 1.3), (96.7, 0.5), (72.7, 0.9), (71.9, 0.6)),
        ("Ours", "8B"): ((63.8, 0.2), (71.2, 0.9), (64.2, 1.4), (96.8, 0.5), (78.1, 0.8), (75.9, 0.5)),
    },
    "Late Fusion": {
        ("Gemini-2-Embedding", "–"): ((54.1, 0.2), (61.5, 1.0), (61.5, 1.4), (95.8, 0.6), (75.9, 0.9), (71.2, 0.6)),
        ("VLM2Vec v2.0", "2B"): ((53.0, 0.2), (62.3, 1.0), (66.6, 1.4), (90.9, 1.0), (73.5, 0.9), (70.8, 0.6)),
        ("SteerViT", "86M"): ((51.4, 0.2), (67.9, 1.0), (66.0, 1.4), (96.6, 0.5), (75.2, 0.9), (74.0, 0.5)),
        ("GeneCIS", "150M"): ((44.9, 0.2), (62.4, 1.0), (71.8, 1.3), (96.3, 0.6), (72.7, 0.9), (72.2, 0.6)),
        ("Qwen3-VL-Emb", "2B"): ((56.7, 0.2), (64.4, 1.0), (70.0, 1.3), (92.7, 0.9), (77.9, 0.8), (73.9, 0.5)),
        ("Qwen3-VL-Emb", "8B"): ((58.3, 0.2), (62.9, 1.0), (68.6, 1.3), (94.5, 0.7), (78.1, 0.8), (73.5, 0.5)),
        ("Ours", "8B"): ((64.1, 0.2), (71.2, 0.9), (72.1, 1.3), (96.6, 0.5), (80.0, 0.8), (77.9, 0.5)),
    },
}

TABLE_4_COLUMNS = ("BAPPS", "NIGHTS")
TABLE_4: Mapping[str, Mapping[FamilyAndSize, tuple[MeanAndError | None, ...]]] = {
    "Classic": {
        ("LPIPS", "62M"): ((68.4, 0.2), (76.4, 1.0)),
        ("DreamSim", "258M"): ((68.3, 0.2), (96.2, 0.5)),
    },
    "Late Fusion": {
        ("Qwen3-VL-Emb", "8B"): ((65.2, 0.2), (87.9, 0.8)),
        ("Ours", "8B"): ((67.3, 0.2), (94.0, 0.6)),
    },
}

# Section 5: what the figures of a column can reach at most. The paper prints it for odd-one-out alone.
HUMAN_CONSENSUS: Mapping[str, float] = {"Odd-One-Out": 67.5}

# method -> mAP of object, style, background, their mean, and AIS (QARE-Bench, synthetic)
TABLE_5: Mapping[str, tuple[float, float, float, float, float]] = {
    "Vision Encoder CLIP": (9.4, 13.1, 8.8, 4.5, 1.0),
    "Vision Encoder SigLIP": (10.0, 11.0, 10.1, 4.4, 1.0),
    "Vision Encoder DINOv2": (13.5, 6.8, 10.0, 4.2, 1.0),
    "Vision Encoder DINOv3": (12.1, 7.1, 11.2, 4.1, 1.0),
    "TF-QARE Qwen2-VL 2B": (8.7, 20.5, 37.1, 22.1, 0.63),
    "TF-QARE Qwen2-VL 7B": (69.7, 73.9, 91.7, 78.4, 0.68),
    "TF-QARE Qwen2.5-VL 3B": (38.7, 45.6, 91.5, 58.6, 0.78),
    "TF-QARE Qwen2.5-VL 7B": (83.9, 56.9, 90.1, 77.0, 0.73),
    "TF-QARE Qwen2.5-VL 32B": (79.0, 55.2, 91.7, 75.3, 0.81),
    "TF-QARE InternVL3 1B": (47.8, 23.5, 65.6, 45.6, 0.74),
    "TF-QARE InternVL3 2B": (46.9, 58.0, 90.2, 65.0, 0.75),
    "TF-QARE InternVL3 8B": (78.0, 56.8, 91.7, 75.5, 0.55),
    "TF-QARE InternVL3 14B": (85.8, 55.4, 91.7, 77.6, 0.78),
    "TF-QARE Gemma3 4B": (55.6, 70.4, 83.9, 70.0, 0.88),
    "TF-QARE Gemma3 12B": (82.9, 75.4, 91.7, 83.3, 0.88),
    "VLM2VecV1 Qwen2-VL 7B": (8.9, 29.6, 11.6, 16.7, 0.97),
    "VLM2VecV2 Qwen2-VL 2B": (7.9, 27.0, 11.2, 15.4, 0.82),
    "Ours Qwen3-VL-Emb 8B": (78.6, 75.1, 91.6, 81.7, 0.67),
}
# fmt: on


def paper_rows(columns: Sequence[str | None]) -> list[ModelRow]:
    """Return the rows of Tables 3 and 4 that have a figure in one of the columns, in Table 3's order.

    >>> paper_rows(["NIGHTS"])[0]
    ModelRow(type='Classic', family='LPIPS', size='62M')
    """
    rows = [ModelRow(kind, family, size) for kind, models in TABLE_3.items() for family, size in models]
    return [row for row in rows if any(paper_figure(row, column) for column in columns)]


def paper_figure(row: ModelRow, column: str | None) -> MeanAndError | None:
    """Return what the paper measured in one cell, in per cent, None where it did not.

    >>> paper_figure(ModelRow("Late Fusion", "Ours", "8B"), "Odd-One-Out")
    (64.1, 0.2)
    """
    for columns, table in ((TABLE_3_COLUMNS, TABLE_3), (TABLE_4_COLUMNS, TABLE_4)):
        figures = table.get(row.type, {}).get((row.family, row.size))
        if column in columns and figures is not None:
            return figures[columns.index(column)]
    return None
