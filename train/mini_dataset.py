"""Features and labels of procedural families, made by several processes and kept on disk so that a run can resume."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tpips_model.mini.backbone import EfficientNetLite0
from tpips_model.mini.features import FEATURE_VERSION, image_features
from train.scenes import FACTORS, FAMILY_SIZE, SCENES_VERSION, Family, family
from train.synthetic import ASPECTS, EVALUATION_SEEDS, aspect_labels, factor_value

__all__ = ["FAMILIES_PER_SHARD", "FamilyData", "ShardPlan", "family_seeds", "load_shards", "make_shards"]

FAMILIES_PER_SHARD = 32
_ASPECT_NAMES = tuple(ASPECTS)


@dataclass(frozen=True)
class ShardPlan:
    """Which families a set of shards holds, and where it lies.

    Attributes:
        directory: Folder of the shards.
        backbone: File of the backbone's weights.
        seed: Of the whole set.
        families: How many, rounded up to whole shards.
        evaluation: Whether the families are for evaluation (seeds apart from all training).
        held: Whether the values that differ are the held-out ones.
    """

    directory: Path
    backbone: Path
    seed: int
    families: int
    evaluation: bool = False
    held: bool = False

    @property
    def shards(self) -> int:
        """How many shards the families fill."""
        return -(-self.families // FAMILIES_PER_SHARD)

    def path(self, shard: int) -> Path:
        """Where a shard lies; the name tells all that its content depends on, so that nothing stale is taken up."""
        kind = ("evaluation" if self.evaluation else "training") + ("-held" if self.held else "")
        name = f"{kind}-scenes{SCENES_VERSION}-features{FEATURE_VERSION}-seed{self.seed}-{shard:05d}.npz"
        return self.directory / name


@dataclass(frozen=True)
class FamilyData:
    """Families as a head learns from them.

    Attributes:
        features: float16 (families · 8, F); a family's pictures lie together.
        label_family: int64 (L,), the family of each labelled (family, aspect).
        label_aspect: int64 (L,), the aspect's number among ASPECTS.
        targets: float32 (L, 56, 3), as AspectLabels.targets.
        usable: bool (L, 56).
        values: For each factor, one word or None per picture.
        kinds: The kind of each family.
    """

    features: NDArray[np.float16]
    label_family: NDArray[np.int64]
    label_aspect: NDArray[np.int64]
    targets: NDArray[np.float32]
    usable: NDArray[np.bool_]
    values: Mapping[str, list[str | None]]
    kinds: list[str]


def family_seeds(plan: ShardPlan, shard: int) -> range:
    """Return the seeds of a shard's families; no two plans of different seed or purpose share one."""
    base = (EVALUATION_SEEDS if plan.evaluation else 0) + plan.seed * 1_000_000 + shard * FAMILIES_PER_SHARD
    return range(base, base + FAMILIES_PER_SHARD)


def make_shards(plan: ShardPlan, *, workers: int = 2, on_shard: Callable[[int, int], None] | None = None) -> None:
    """Draw, describe and label all families of a plan; shards that are there are kept.

    Args:
        plan: What to make.
        workers: Processes; each uses one thread.
        on_shard: Called with the number of shards done and their total, whenever one is done.
    """
    plan.directory.mkdir(parents=True, exist_ok=True)
    missing = [shard for shard in range(plan.shards) if not plan.path(shard).exists()]
    done = plan.shards - len(missing)
    if on_shard:
        on_shard(done, plan.shards)
    tasks = [(plan, shard) for shard in missing]
    for _ in _mapped(tasks, min(workers, len(tasks))):
        done += 1
        if on_shard:
            on_shard(done, plan.shards)


def _mapped(tasks: list[tuple[ShardPlan, int]], workers: int) -> Iterator[None]:
    if workers <= 1:
        yield from map(_make_shard, tasks)
        return
    # A fresh interpreter per worker: a fork would copy torch's thread pools in an unknown state.
    with multiprocessing.get_context("spawn").Pool(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        yield from pool.imap_unordered(_make_shard, tasks)


def _make_shard(task: tuple[ShardPlan, int]) -> None:
    plan, shard = task
    backbone = EfficientNetLite0.from_file(plan.backbone)
    arrays: dict[str, list[Any]] = {"features": [], "label_family": [], "label_aspect": [], "targets": [], "usable": []}
    records: list[dict[str, Any]] = []
    for number, seed in enumerate(family_seeds(plan, shard)):
        drawn = family(seed, held=plan.held)
        images = [picture.draw() for picture in drawn.pictures]
        pixels = torch.from_numpy(np.stack([np.asarray(image) for image in images]))
        with torch.inference_mode():
            arrays["features"].append(image_features(backbone, pixels).half().numpy())
        for aspect, labels in aspect_labels(drawn, images).items():
            arrays["label_family"].append(number)
            arrays["label_aspect"].append(_ASPECT_NAMES.index(aspect))
            arrays["targets"].append(labels.targets.astype(np.float16))
            arrays["usable"].append(labels.usable)
        records.append(_record(drawn))
    _write(plan.path(shard), arrays, records)


def _record(drawn: Family) -> dict[str, Any]:
    return {"kind": drawn.kind, "values": {name: [factor_value(p, name) for p in drawn.pictures] for name in FACTORS}}


def _write(path: Path, arrays: Mapping[str, list[Any]], records: list[dict[str, Any]]) -> None:
    text = np.frombuffer(json.dumps(records).encode(), np.uint8)
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb") as file:
        np.savez(
            file,
            features=np.concatenate(arrays["features"]),
            label_family=np.array(arrays["label_family"]),
            label_aspect=np.array(arrays["label_aspect"]),
            targets=np.stack(arrays["targets"]),
            usable=np.stack(arrays["usable"]),
            records=text,
        )
    os.replace(temporary, path)


def load_shards(plan: ShardPlan) -> FamilyData:
    """Read all shards of a plan that make_shards has made.

    Raises:
        RuntimeError: The shards do not belong together.
    """
    parts: dict[str, list[NDArray[Any]]] = {}
    records: list[dict[str, Any]] = []
    for shard in range(plan.shards):
        with np.load(plan.path(shard), allow_pickle=False) as held:
            for name in ("features", "label_aspect", "targets", "usable"):
                parts.setdefault(name, []).append(held[name])
            parts.setdefault("label_family", []).append(held["label_family"] + len(records))
            records += json.loads(held["records"].tobytes())
    values = {name: [value for record in records for value in record["values"][name]] for name in FACTORS}
    features = np.concatenate(parts["features"])
    if len(features) != len(records) * FAMILY_SIZE:
        raise RuntimeError(
            f"{len(features)} pictures of {len(records)} families; delete {plan.directory} and run again"
        )
    return FamilyData(
        features=features,
        label_family=np.concatenate(parts["label_family"]),
        label_aspect=np.concatenate(parts["label_aspect"]),
        targets=np.concatenate(parts["targets"]).astype(np.float32),
        usable=np.concatenate(parts["usable"]),
        values=values,
        kinds=[record["kind"] for record in records],
    )
