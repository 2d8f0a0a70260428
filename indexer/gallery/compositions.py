"""Where the subject stands in the picture, and how high the horizon lies."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["COMPOSITIONS", "Composition", "Place"]


@dataclass(frozen=True)
class Place:
    """Where one copy of the subject stands.

    Attributes:
        x: Of its foot, as a share of the picture's width.
        y: Of its foot, as a share of the picture's height, from the top.
        size: Of one unit, as a share of the picture's shorter side.
    """

    x: float
    y: float
    size: float


@dataclass(frozen=True)
class Composition:
    """The horizon's height, as a share from the top, and the places from far to near."""

    horizon: float
    places: tuple[Place, ...]


COMPOSITIONS = {
    "centred": Composition(0.62, (Place(0.5, 0.86, 0.68),)),
    "left third": Composition(0.58, (Place(0.29, 0.84, 0.46),)),
    "right third": Composition(0.58, (Place(0.71, 0.84, 0.46),)),
    "low horizon": Composition(0.87, (Place(0.5, 0.93, 0.36),)),
    "close-up": Composition(0.7, (Place(0.5, 1.12, 1.3),)),
    "diagonal": Composition(0.42, (Place(0.8, 0.49, 0.26), Place(0.54, 0.7, 0.38), Place(0.22, 0.97, 0.54))),
}
