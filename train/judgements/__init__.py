"""Human judgements of similarity: odd-one-out triplets and 2AFC items, from every source behind one function."""

from train.judgements.records import Judgement, JudgementDataError, JudgementSet, Kind, PictureSource, Refusal
from train.judgements.registry import load_judgements

__all__ = [
    "Judgement",
    "JudgementDataError",
    "JudgementSet",
    "Kind",
    "PictureSource",
    "Refusal",
    "load_judgements",
]
