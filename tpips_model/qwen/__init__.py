"""TPIPS on Qwen3-VL: late, mid and early fusion, the triplet head and the zero-shot baselines."""
