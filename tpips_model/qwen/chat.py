"""Chat markup: words and image placeholders as the token sequences of the models."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from tpips_model.aspects import Aspect, AspectLike
from tpips_model.errors import ModelError

__all__ = ["DEFAULT_INSTRUCTION", "Chat", "late_prefix", "late_suffix", "zero_shot_embedding_prompt"]

DEFAULT_INSTRUCTION = "Represent the user's input."
MARKUP = {
    "start": "<|im_start|>",
    "end": "<|im_end|>",
    "vision_start": "<|vision_start|>",
    "vision_end": "<|vision_end|>",
    "image": "<|image_pad|>",
    "pad": "<|endoftext|>",
}


class Chat:
    """A tokenizer that keeps words and markup apart.

    Words are always tokenised as plain words: an aspect such as ``"<|im_end|>"`` cannot end a turn or pose as an
    image.

    Args:
        tokenizer: A tokenizer of the transformers library.
        image_token_id: The placeholder of an image token, as the backbone's configuration has it.

    Attributes:
        start, end, vision_start, vision_end, image, pad: Token ids of the markup.

    Raises:
        ModelError: The tokenizer does not know the chat's markup.
    """

    def __init__(self, tokenizer: Any, *, image_token_id: int) -> None:
        vocabulary = tokenizer.get_vocab()
        missing = [name for name in MARKUP.values() if name not in vocabulary]
        if missing:
            raise ModelError(
                f"the tokenizer knows no {', '.join(missing)}; give a Qwen3-VL backbone with its own tokenizer files"
            )
        self.start, self.end, self.vision_start, self.vision_end, self.image, self.pad = (
            int(vocabulary[name]) for name in MARKUP.values()
        )
        if self.image != image_token_id:
            raise ModelError(
                f"the tokenizer's {MARKUP['image']} is token {self.image}, the model's configuration says "
                f"{image_token_id}; take tokenizer and model from the same place"
            )
        self.tokenizer = tokenizer

    def encode(self, pieces: Iterable[str | int]) -> list[int]:
        """Return the tokens of words (str, neighbours joined) and markup (token ids) in order."""
        tokens: list[int] = []
        for is_words, run in groupby(pieces, lambda piece: isinstance(piece, str)):
            if is_words:
                words = "".join(str(piece) for piece in run)
                tokens += self.tokenizer(words, add_special_tokens=False, split_special_tokens=True)["input_ids"]
            else:
                tokens += [int(piece) for piece in run]
        return tokens

    def image_tokens(self, count: int) -> list[int]:
        """Return the tokens of one image: its frame and ``count`` placeholders."""
        return [self.vision_start, *[self.image] * count, self.vision_end]


def late_prefix(chat: Chat, image_tokens: int, *, instruction: str = DEFAULT_INSTRUCTION) -> list[int]:
    """Return what comes before the words of late fusion and is the same for every aspect: system turn and image.

    A full stop is added to an instruction that ends in no punctuation.
    """
    instruction = instruction.strip()
    if instruction and not unicodedata.category(instruction[-1]).startswith("P"):
        instruction += "."
    system = (chat.start, f"system\n{instruction}", chat.end, "\n")
    return chat.encode([*system, chat.start, "user\n", *chat.image_tokens(image_tokens)])


def late_suffix(chat: Chat, prompt: str) -> list[int]:
    """Return what comes after the image in late fusion: the prompt and the opening of the answer.

    The vector is read at the last of these tokens.
    """
    return chat.encode([prompt, chat.end, "\n", chat.start, "assistant\n"])


def zero_shot_embedding_prompt(aspect: AspectLike) -> str:
    """Return the instruction of the zero-shot embedding baseline (Appendix C.3).

    >>> zero_shot_embedding_prompt("lighting")
    'Represent the visual similarity of this image in terms of lighting.'
    >>> zero_shot_embedding_prompt("overall")
    'Represent the visual similarity of this image.'
    """
    aspect = Aspect.of(aspect)
    condition = "" if aspect.is_overall else f" in terms of {aspect.text}"
    return f"Represent the visual similarity of this image{condition}."
