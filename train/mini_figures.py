"""What was measured of the bundled model, and the bars it is held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from train.agreement import Estimate
from train.scene_evaluation import Precision
from train.scenes import FACTORS

__all__ = ["PENALTIES", "Bar", "MiniEvaluation", "Speed", "SubjectRetrieval", "factor_mean"]

# Overall penalties λ that retrieval is measured with; the paper's is 0.3.
PENALTIES = (0.0, 0.1, 0.2, 0.3)


@dataclass(frozen=True)
class Speed:
    """How fast the model is on one core, from JPEG bytes to vectors.

    Attributes:
        images_per_second: With eight aspects.
        cost_of_eight: Time with eight aspects over time with one.
    """

    images_per_second: float
    cost_of_eight: float


@dataclass(frozen=True)
class SubjectRetrieval:
    """Retrieval by "subject" among pictures in class folders; the bar is the plain backbone's figure.

    Attributes:
        same_class: Share of the same class in the first five hits, in [0, 1].
        unseen_words: The same, asked in words that training never sees.
        backbone: The same of the plain backbone.
        classes: How many classes.
        pictures: How many pictures in them.
    """

    same_class: float
    unseen_words: float
    backbone: float
    classes: int
    pictures: int


@dataclass(frozen=True)
class Bar:
    """One figure and what it should be.

    Attributes:
        name: What is measured.
        figure: The measured value.
        bar: What it is held against.
        at_most: Whether the figure should stay below the bar instead of reaching it.
        unit: "%" or a word.
    """

    name: str
    figure: float
    bar: float
    at_most: bool = False
    unit: str = "%"

    @property
    def reached(self) -> bool:
        """Whether the figure is good enough."""
        return self.figure <= self.bar if self.at_most else self.figure >= self.bar


@dataclass(frozen=True)
class MiniEvaluation:
    """All that was measured; shares are in [0, 1].

    Attributes:
        scenes: Aspect → odd-one-out accuracy on unseen families.
        held_values: The same with factor values that training never sees.
        backbone_scenes: ``scenes`` of the plain backbone.
        retrieval: Factor → precision among unseen families' pictures.
        backbone_retrieval: The same of the plain backbone.
        photos: Factor → odd-one-out accuracy on edited photographs.
        backbone_photos: The same of the plain backbone.
        cross_content: Factor → how often another photograph under the same edit wins when the factor is asked.
        cross_subject: Factor → how often the same photograph under another edit wins when the subject is asked.
        photo_count: How many photographs.
        subject: Retrieval by "subject" in class folders; None where none were given.
        speed: On one core.
        weight_bytes: Of the three files.
    """

    scenes: Mapping[str, Estimate]
    held_values: Mapping[str, Estimate]
    backbone_scenes: Mapping[str, Estimate]
    retrieval: Mapping[str, Precision]
    backbone_retrieval: Mapping[str, Precision]
    photos: Mapping[str, Estimate]
    backbone_photos: Mapping[str, Estimate]
    cross_content: Mapping[str, Estimate]
    cross_subject: Mapping[str, Estimate]
    photo_count: int
    subject: SubjectRetrieval | None
    speed: Speed
    weight_bytes: Mapping[str, int]

    def penalty_precision(self) -> dict[float, float]:
        """Return the mean precision over factors for every overall penalty tried."""
        return {
            penalty: float(np.mean([precision.by_penalty[penalty] for precision in self.retrieval.values()]))
            for penalty in PENALTIES
        }

    @property
    def recommended_overall_penalty(self) -> float:
        """The penalty with the best mean precision; the smallest of those within a tenth of a point."""
        by_penalty = self.penalty_precision()
        best = max(by_penalty.values())
        return min(penalty for penalty, precision in by_penalty.items() if precision >= best - 0.001)

    def bars(self) -> list[Bar]:
        """Return every figure with its bar, in per cent or the unit named."""
        factors = {name: self.scenes[name].mean for name in FACTORS if name in self.scenes}
        lowest = min(factors, key=factors.__getitem__)
        bars = [
            Bar(f"odd one out, held-out scenes, mean of {len(factors)} aspects", 100 * factor_mean(self.scenes), 74),
            Bar(f"  lowest aspect ({lowest})", 100 * factors[lowest], 50),
            Bar("  position", 100 * factors["position"], 60),
            Bar("odd one out, held-out factor values too", 100 * factor_mean(self.held_values), 68),
            Bar(f"odd one out, {self.photo_count} edited photographs", 100 * factor_mean(self.photos), 88),
            Bar("cross-content", 100 * factor_mean(self.cross_content), 55),
        ]
        if self.subject:
            name = f'same class in top 5 by "subject", {self.subject.pictures} pictures'
            bars.append(Bar(name, 100 * self.subject.same_class, 100 * self.subject.backbone))
        return [
            *bars,
            Bar("images/s on one core, eight aspects", self.speed.images_per_second, 20, unit="1/s"),
            Bar("eight aspects cost, of one", self.speed.cost_of_eight, 1.3, at_most=True, unit="times"),
            Bar("weights", sum(self.weight_bytes.values()) / 1e6, 25, at_most=True, unit="MB"),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values, the bars first."""
        bars = [{**asdict(bar), "reached": bar.reached} for bar in self.bars()]
        penalties = {str(penalty): value for penalty, value in self.penalty_precision().items()}
        return {
            "bars": bars,
            "mean_precision_at_10_by_overall_penalty": penalties,
            "recommended_overall_penalty": self.recommended_overall_penalty,
            **asdict(self),
        }


def factor_mean(values: Mapping[str, Estimate]) -> float:
    """Return the mean over those of the 17 factors that were measured; composite aspects do not count."""
    return _mean(values[name].mean for name in FACTORS if name in values)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
