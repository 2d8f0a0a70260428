"""The bundled starter model."""

from tpips_model.mini.embedder import MiniEmbedder, load

__all__ = ["MiniEmbedder", "load"]
