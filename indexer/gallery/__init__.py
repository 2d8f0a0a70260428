"""The demo gallery: little paintings made on the spot, each with known, independently chosen factors."""

from indexer.gallery.catalogue import gallery
from indexer.gallery.painting import FACTORS, FORMATS, Painting, paint

__all__ = ["FACTORS", "FORMATS", "Painting", "gallery", "paint"]
