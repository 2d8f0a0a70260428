"""Indices served from Milvus, by our scoring."""
