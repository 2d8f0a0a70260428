"""An evaluation from names to figures: everything is checked, then scored once, then averaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tpips_model.devices import chosen_device
from tpips_model.errors import ModelError
from train.evaluation.figures import Points, agreement_points
from train.evaluation.items import plan_items
from train.evaluation.judges import EmbeddingJudge, Judge, ModelRow
from train.evaluation.model_names import check_model_names, load_judge
from train.evaluation.qare import QareFigures, QareSet, load_qare, measure_qare
from train.evaluation.scoring import ScoringConfig, score_items
from train.judgements import JudgementDataError, JudgementSet, load_judgements

__all__ = ["DataEntry", "Evaluation", "EvaluationConfig", "ModelEntry", "evaluate", "evaluate_judges"]

QARE_PREFIX = "qare:"


@dataclass(frozen=True)
class EvaluationConfig:
    """What to measure on what.

    Attributes:
        models: Names, see ``load_judge``.
        data: Specs of ``load_judgements``, and ``qare:FOLDER``.
        images_root: What paths in JSON lines are relative to; by default the file's folder.
        allow_refusals: Measure on what can be used of the data instead of refusing them.
        device: By default a GPU if there is one, else the CPU; mini computes on the CPU whatever it is.
        scoring: Cache, batch and threads.
    """

    models: tuple[str, ...]
    data: tuple[str, ...]
    images_root: Path | None = None
    allow_refusals: bool = False
    device: str | None = None
    scoring: ScoringConfig = field(default_factory=ScoringConfig)


@dataclass(frozen=True)
class ModelEntry:
    """A model that was measured.

    Attributes:
        fingerprint: Of its weights, words and image settings.
        row: Its place in Table 3.
    """

    fingerprint: str
    row: ModelRow


@dataclass(frozen=True)
class DataEntry:
    """A data set that was measured on.

    Attributes:
        name: What the tables call it.
        items: Triplets, or pairs with their reference.
        points: Judgements, an item under an aspect each.
        refused: How many of its lines could not be used.
        dropped: What rules of section 3.1 and Appendix A left out.
    """

    name: str
    items: int
    points: int
    refused: int
    dropped: Mapping[str, int]


@dataclass(frozen=True)
class Evaluation:
    """All figures.

    Attributes:
        models: By name, in the order asked for.
        data: The data sets.
        points: One entry for each data set and kind of judgement.
        qare: One entry for each QARE-Bench folder and model that makes vectors.
    """

    models: Mapping[str, ModelEntry]
    data: tuple[DataEntry, ...]
    points: tuple[Points, ...]
    qare: tuple[QareFigures, ...] = ()


def evaluate(config: EvaluationConfig, *, on_progress: Callable[[int, int], None] | None = None) -> Evaluation:
    """Load data and models, and measure.

    Args:
        config: See ``EvaluationConfig``.
        on_progress: See ``score_items``.

    Raises:
        ModelError: A model's name is unknown, its package or the device missing, it cannot be loaded, or nothing in the
            data is of a kind that it answers.
        JudgementDataError: The data cannot be used, or hold no judgement.
        QareDataError: A folder does not hold QARE-Bench.
        ImageError: A picture cannot be read.
    """
    check_model_names(config.models)
    chosen_device(config.device)
    if not config.data:
        raise JudgementDataError("no data were named; give FILE.jsonl, a folder of shards, or qare:FOLDER")
    qare = [load_qare(Path(spec.removeprefix(QARE_PREFIX))) for spec in config.data if spec.startswith(QARE_PREFIX)]
    sets = [
        load_judgements(spec, images_root=config.images_root, allow_refusals=config.allow_refusals)
        for spec in config.data
        if not spec.startswith(QARE_PREFIX)
    ]
    for judgement_set in sets:
        if not judgement_set.judgements:
            raise JudgementDataError(f"{judgement_set.name} holds no judgement that can be used")
    judges = [load_judge(name, device=config.device) for name in config.models]
    return evaluate_judges(judges, sets, qare=qare, scoring=config.scoring, on_progress=on_progress)


def evaluate_judges(
    judges: Sequence[Judge],
    sets: Sequence[JudgementSet],
    *,
    qare: Sequence[QareSet] = (),
    scoring: ScoringConfig | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Measure loaded models on loaded data; arguments and errors as of ``evaluate``."""
    _check_kinds(judges, sets, qare)
    named = _with_names_of_their_own(sets)
    plan = plan_items(judgement for one in named for judgement in one.judgements)
    scores = score_items(judges, plan.items, scoring or ScoringConfig(), on_progress=on_progress)
    return Evaluation(
        models={judge.name: ModelEntry(judge.fingerprint, judge.row) for judge in judges},
        data=tuple(_data_entry(one) for one in named),
        points=tuple(agreement_points(named, plan, scores)),
        qare=tuple(figures for data in qare for figures in measure_qare(judges, data)),
    )


def _check_kinds(judges: Sequence[Judge], sets: Sequence[JudgementSet], qare: Sequence[QareSet]) -> None:
    kinds = {judgement.kind for one in sets for judgement in one.judgements}
    for judge in judges:
        if not (kinds & judge.kinds or (qare and isinstance(judge, EmbeddingJudge))):
            held = " and ".join(sorted(kinds)) if kinds else "no judgements"
            asked = " and ".join(sorted(judge.kinds))
            also = ", and QARE-Bench needs a model that makes vectors" if qare else ""
            raise ModelError(f"{judge.name} answers {asked} only, but the data hold {held}{also}; leave it out")


def _with_names_of_their_own(sets: Sequence[JudgementSet]) -> list[JudgementSet]:
    repeats = Counter(one.name for one in sets)
    seen: Counter[str] = Counter()
    named = []
    for one in sets:
        seen[one.name] += 1
        named.append(replace(one, name=f"{one.name}-{seen[one.name]}") if repeats[one.name] > 1 else one)
    return named


def _data_entry(one: JudgementSet) -> DataEntry:
    items = len(plan_items(one.judgements).items)
    return DataEntry(one.name, items, len(one.judgements), len(one.refusals), one.dropped)
