"""The named colour schemes of the gallery; every colour in a painting is one of its palette's, or between two."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["PALETTES", "Colour", "Palette", "mix"]

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Palette:
    """Nine colours by their role in a painting, RGB 0…255.

    Attributes:
        ink: The darkest, for lines and deep shadow.
        shadow: Dark masses: trunks, roofs, hulls.
        ground: What the subject stands on.
        far: What lies behind it.
        sky: The large quiet area.
        paper: The lightest, for lights and bare paper.
        main: The subject's own colour.
        second: The subject's other colour.
        accent: Small bright things.
    """

    ink: Colour
    shadow: Colour
    ground: Colour
    far: Colour
    sky: Colour
    paper: Colour
    main: Colour
    second: Colour
    accent: Colour


def mix(first: Colour, other: Colour, share: float) -> Colour:
    """Return the colour that lies ``share`` of the way from the first to the other."""
    red, green, blue = (round(one + (two - one) * share) for one, two in zip(first, other, strict=True))
    return red, green, blue


def _palette(hexadecimal: str) -> Palette:
    return Palette(*((int(c[:2], 16), int(c[2:4], 16), int(c[4:], 16)) for c in hexadecimal.split()))


# In the order of Palette's fields.      ink    shadow ground far    sky    paper  main   second accent
PALETTES = {
    "autumn": _palette("2b1710 6a2f18 a5622a d09a4e efd08c fbf0d6 b93418 e58a1c 7d7f2c"),
    "sea": _palette("08263b 12506f 2f8f9a 74bfc0 b5e2df f4fbf4 0c6c9e f2dfae f07f5a"),
    "blues": _palette("0a1433 16306e 3f66ad 7fa3d6 b9d0ee f3f8ff 1f4fb4 6f9fe8 a9ccff"),
    "pastel": _palette("4f4670 9184b6 b7dcc4 cfc7ea d9eef7 fffaf5 f2a2b6 fcd79b 9fd6cf"),
    "neon": _palette("090417 4a22b8 3d0f80 6a1bc0 1d0b52 f2f4ff ff2a92 00e0ff c8ff1a"),
    "sepia": _palette("241509 553720 927047 b99b6c dcc59b f7ecd2 70461f a97c47 e3c68c"),
    "primary": _palette("131313 24356f efc11a e6dfc9 f6f1e2 fffdf6 d8231c 1b4fbd f5cf0f"),
    "moss": _palette("10200f 27451f 5c7d34 93a85c c7d39a f3f5dd 35702c a8a32f e0c552"),
    "plum": _palette("240a24 561446 93436f c885a3 ecc5cf fdf1f0 8f1650 d9567f f2a04e"),
    "greys": _palette("121314 3b3d40 77797d a5a7aa cfd1d3 fafafa 54575b 8b8e92 e4e5e6"),
}
