"""The token sequences of the models that see several images, or the words before the image, and their wording.

The words are the paper's: Appendix C.1 for mid and early fusion, B.1 for the triplet head, C.3 for the zero-shot
baselines; the layout of mid and early fusion is the authors' release's. The aspect ⟨c⟩ is put in as it is; overall
drops the condition.
"""

from __future__ import annotations

from collections.abc import Sequence

from tpips_model.aspects import Aspect, AspectLike, early_fusion_prompt, late_fusion_prompt
from tpips_model.qwen.chat import Chat

__all__ = [
    "early_fusion_tokens",
    "mid_fusion_tokens",
    "question_tokens",
    "rating_prompt",
    "triplet_head_prompt",
    "two_afc_prompt",
    "zero_shot_triplet_prompt",
]


def mid_fusion_tokens(chat: Chat, aspect: AspectLike, image_tokens: int) -> list[int]:
    """Return mid fusion's sequence: a user turn of the words of late fusion, then the image; nothing else."""
    words = late_fusion_prompt(aspect)
    return chat.encode([chat.start, "user\n", words, *chat.image_tokens(image_tokens), chat.end, "\n"])


def early_fusion_tokens(chat: Chat, aspect: AspectLike, image_tokens_a: int, image_tokens_b: int) -> list[int]:
    """Return early fusion's sequence without its registers: a user turn of the words, image a and image b."""
    images = [*chat.image_tokens(image_tokens_a), *chat.image_tokens(image_tokens_b)]
    return chat.encode([chat.start, "user\n", early_fusion_prompt(aspect), *images, chat.end, "\n"])


def question_tokens(chat: Chat, question: str, image_tokens: Sequence[int]) -> list[int]:
    """Return a question about one or several images, with the model's answer opened."""
    images = [token for count in image_tokens for token in chat.image_tokens(count)]
    turn: list[str | int] = [chat.start, "user\n", *images, question, chat.end, "\n"]
    return chat.encode([*turn, chat.start, "assistant\n"])


def triplet_head_prompt(aspect: AspectLike) -> str:
    """Return the triplet head's question, which is what the annotators were asked (Appendix B.1).

    >>> triplet_head_prompt("lighting")
    'Which image is the most different among the three in terms of lighting?'
    >>> triplet_head_prompt("overall")
    'Which image is the most different among the three?'
    """
    return f"Which image is the most different among the three{_condition(aspect)}?"


def zero_shot_triplet_prompt(aspect: AspectLike) -> str:
    """Return the odd-one-out question about three images side by side (Appendix C.3).

    >>> zero_shot_triplet_prompt("lighting")[-101:]
    'most different among the three in terms of lighting? You need to choose: left, middle, right. Answer:'
    """
    return (
        "I provide three horizontally concatenated images (left, middle, right). "
        f"Which image is the most different among the three{_condition(aspect)}? "
        "You need to choose: left, middle, right. Answer:"
    )


def two_afc_prompt(aspect: AspectLike) -> str:
    """Return the 2AFC question about candidate, reference, candidate side by side (Appendix C.3)."""
    return (
        "I provide three horizontally concatenated images. The center image is the reference. "
        f"Which candidate (left or right) is more similar to the reference{_condition(aspect)}? "
        "Answer with one word: left or right. Answer:"
    )


def rating_prompt(aspect: AspectLike) -> str:
    """Return the question for a rating of 0 to 10 of two images side by side (Appendix C.3).

    For overall the words "in terms of ⟨c⟩" become "overall".
    """
    aspect = Aspect.of(aspect)
    condition = "overall" if aspect.is_overall else f"in terms of {aspect.text}"
    return (
        "I show you two images placed side by side (left and right). "
        f"Rate how similar these two images are {condition} on a scale of 0 to 10, "
        "where 0 means completely different and 10 means identical. "
        "Answer with a single number from 0 to 10. Answer:"
    )


def _condition(aspect: AspectLike) -> str:
    aspect = Aspect.of(aspect)
    return "" if aspect.is_overall else f" in terms of {aspect.text}"
