"""The four sources of the paper's 2AFC set, by the names that data sets give them (Appendix A.2, Table 2)."""

from __future__ import annotations

from typing import Literal

__all__ = ["TwoAfcSource", "two_afc_source"]

# As Table 3 calls them.
TwoAfcSource = Literal["Editing", "Composite", "NVS", "Im-to-3D"]

_SUBSETS: dict[str, TwoAfcSource] = {
    "editing": "Editing",
    "edit": "Editing",
    "img-edit": "Editing",
    "image-editing": "Editing",
    "composite": "Composite",
    "compositing": "Composite",
    "img-composite": "Composite",
    "image-compositing": "Composite",
    "nvs": "NVS",
    "novel-view-synthesis": "NVS",
    "im-to-3d": "Im-to-3D",
    "image-to-3d": "Im-to-3D",
    "single-image-3d": "Im-to-3D",
}


def two_afc_source(subset: str) -> TwoAfcSource | None:
    """Return the source that a subset's name means, or None if it is none of the paper's.

    >>> two_afc_source("Image Editing"), two_afc_source("im_to_3d"), two_afc_source("video")
    ('Editing', 'Im-to-3D', None)
    """
    return _SUBSETS.get(subset.casefold().replace("_", "-").replace(" ", "-"))
