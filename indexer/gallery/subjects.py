"""What a painting can show: the registry of subjects.

Each draws about one unit wide and tall, standing on the origin, with the given chance in its details.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from indexer.gallery.animals import cat, fish, owl
from indexer.gallery.landscape import house, lighthouse, mountain, tree
from indexer.gallery.palettes import Palette
from indexer.gallery.pen import Pen
from indexer.gallery.still_life import flower_vase, fruit_bowl
from indexer.gallery.vehicles import bicycle, hot_air_balloon, sailing_boat

__all__ = ["SUBJECTS"]

SUBJECTS: dict[str, Callable[[Pen, Palette, np.random.Generator], None]] = {
    "house": house,
    "sailing boat": sailing_boat,
    "tree": tree,
    "mountain": mountain,
    "flower vase": flower_vase,
    "cat": cat,
    "fish": fish,
    "lighthouse": lighthouse,
    "fruit bowl": fruit_bowl,
    "bicycle": bicycle,
    "hot-air balloon": hot_air_balloon,
    "owl": owl,
}
