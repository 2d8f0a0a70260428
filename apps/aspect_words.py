"""A line of explanation for an aspect, for people who have never heard of one."""

from __future__ import annotations

from tpips_model.aspects import Aspect
from tpips_model.remarks import remark_on

__all__ = ["explained_by", "explanation"]

EXPLANATIONS = {
    "overall": "Alike in everything at once.",
    "color-palette": "The same colors, in like amounts.",
    "colour-palette": "The same colours, in like amounts.",
    "brushwork": "How paint or line is laid down.",
    "subject": "What is shown, however it is shown.",
    "subject-matter": "What is shown, however it is shown.",
    "lighting": "Where light comes from, how hard.",
    "composition": "What stands where.",
    "texture": "What the surfaces would feel like.",
    "material": "What things are made of.",
    "mood": "The feeling of the picture.",
    "style": "The manner or school it is made in.",
    "art-style": "The manner or school it is made in.",
    "pose": "How bodies are held.",
    "background": "What is behind the subject.",
    "shape": "Outlines and forms.",
    "pattern": "What repeats, and how.",
    "camera-angle": "Where the camera or the eye stands.",
    "perspective": "Where the camera or the eye stands.",
    "season": "The time of year it shows.",
    "time-of-day": "Morning, noon, dusk or night.",
    "typography": "The lettering.",
}


def explanation(aspect: str | Aspect) -> str:
    """Return one line that says what an aspect looks at.

    >>> explanation("Color palette")
    'The same colors, in like amounts.'
    >>> explanation("hem of the dress")
    'Alike in hem of the dress alone.'
    """
    known = Aspect.of(aspect)
    return EXPLANATIONS.get(known.slug, f"Alike in {known.text} alone.")


def explained_by(model: str, aspect: str | Aspect) -> str:
    """Return what a user should know of an aspect: that the model can only guess at its words, or what it looks at.

    Args:
        model: The name of the index's model.
        aspect: The aspect.

    Raises:
        AspectError: It is no aspect.
    """
    return remark_on(model, aspect) or explanation(aspect)
