"""Exports of an index: parquet, npy and the layout of LAION."""
