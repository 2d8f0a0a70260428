"""From features and words to unit vectors: whitening, a trunk shared by all aspects, and gates that words open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from tpips_model.errors import ModelError
from tpips_model.mini.features import FEATURE_GROUPS, FEATURE_VERSION, group_slices
from tpips_model.mini.tensor_files import read_tensors
from tpips_model.mini.text import TEXT_DIM

__all__ = ["GROUP_RANKS", "Head", "Whitening"]

# group of features -> how many directions of it are kept
GROUP_RANKS: Mapping[str, int] = {
    "stem": 40, "b0": 56, "b2": 64, "b4": 40, "b4 correlations": 64, "b4 grid": 80, "b7": 64, "b10": 80,
    "b10 grid": 112, "b15": 112, "b15 grid": 128, "head": 160, "foreground b2": 72, "foreground b4": 56,
    "foreground b10": 64, "foreground b15": 96, "foreground map": 128, "color": 72, "foreground color": 88,
    "layout": 72, "edges": 112, "patterns": 16, "spectrum": 32,
}  # fmt: skip

# Features further from the mean than this many spreads say no more than that they are far.
_LIMIT = 4.0


class Whitening(nn.Module):
    """Standardise each feature and keep the leading directions of each group, damped so that faint ones stay faint."""

    mean: Tensor
    spread: Tensor

    def __init__(self) -> None:
        super().__init__()
        width = sum(FEATURE_GROUPS.values())
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("spread", torch.ones(width))
        for number, (name, size) in enumerate(FEATURE_GROUPS.items()):
            self.register_buffer(f"basis{number}", torch.zeros(size, GROUP_RANKS[name]))

    @property
    def width(self) -> int:
        """How many numbers are left of an image."""
        return sum(GROUP_RANKS.values())

    def fit(self, features: Tensor) -> None:
        """Set the buffers from float32 (N, F) features of N typical images."""
        for name in FEATURE_GROUPS:
            self.fit_group(features, name)

    def fit_group(self, features: Tensor, name: str) -> None:
        """Set the buffers of one group from float32 (N, F) features of N typical images."""
        part = group_slices()[name]
        group = features[:, part]
        mean, spread = group.mean(0), group.std(0)
        self.mean[part] = mean
        self.spread[part] = spread + 0.02 * group.std() + 1e-4
        standard = ((group - mean) / self.spread[part]).clamp(-_LIMIT, _LIMIT)
        power, directions = _leading(standard, GROUP_RANKS[name])
        number = list(FEATURE_GROUPS).index(name)
        self._buffers[f"basis{number}"] = directions / torch.sqrt(power + 0.25 * power.mean())

    def forward(self, features: Tensor) -> Tensor:
        """Map float32 (B, F) features to float32 (B, width)."""
        standard = ((features - self.mean) / self.spread).clamp(-_LIMIT, _LIMIT)
        parts = [standard[:, part] @ self._basis(number) for number, part in enumerate(group_slices().values())]
        return torch.cat(parts, 1)

    def _basis(self, number: int) -> Tensor:
        basis: Tensor = getattr(self, f"basis{number}")
        return basis


def _leading(rows: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the largest mean squares of float32 (N, F) rows along directions (F, rank), and these directions."""
    count, width = rows.shape
    if count >= width:
        power, directions = torch.linalg.eigh(rows.T @ rows / count)
        return power.flip(0)[:rank].clamp_min(0), directions.flip(1)[:, :rank]
    # Fewer rows than features leave many powers zero, on which eigh may fail to converge.
    _, strengths, right = torch.linalg.svd(rows, full_matrices=False)
    missing = max(0, rank - len(strengths))
    power = functional.pad(strengths[:rank] ** 2 / count, (0, missing))
    return power, functional.pad(right[:rank].T, (0, missing))


class Head(nn.Module):
    """g(features, words) → unit vector (the late fusion of section 4.2, with a small network for the large one).

    A vector has two parts. The first is learned: trunk features, each let through as far as the words ask for it,
    then projected. The second is the backbone's own view of what is depicted. Words decide how much each counts.

    Args:
        hidden: Widths of the trunk's two hidden layers.
        learned: Length of the learned part.
        identity: Length of the backbone's part.
        gate_hidden: Width of the gates' hidden layer.
        dropout: Share of trunk inputs dropped in training.
    """

    identity_basis: Tensor

    def __init__(
        self,
        hidden: Sequence[int] = (512, 256),
        learned: int = 128,
        identity: int = 128,
        gate_hidden: int = 256,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.whitening = Whitening()
        width = self.whitening.width
        self.first = nn.Linear(width, hidden[0])
        self.second = nn.Linear(hidden[0], hidden[1])
        self.scale = nn.Parameter(torch.ones(width))
        self.trunk_width = width + hidden[0] + hidden[1]
        asking, opening = nn.Linear(TEXT_DIM, gate_hidden), nn.Linear(gate_hidden, self.trunk_width)
        self.gates = nn.Sequential(asking, nn.GELU(), opening)
        self.identity_share = nn.Linear(gate_hidden, 1)
        self.project = nn.Linear(self.trunk_width, learned, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("identity_basis", torch.zeros(FEATURE_GROUPS["head"], identity))
        nn.init.normal_(self.project.weight, 0, self.trunk_width**-0.5)
        nn.init.normal_(opening.weight, 0, 0.06)
        nn.init.zeros_(opening.bias)
        nn.init.zeros_(self.identity_share.weight)
        nn.init.constant_(self.identity_share.bias, -2.5)

    @property
    def dim(self) -> int:
        """D, the length of a vector."""
        return self.project.out_features + self.identity_basis.shape[1]

    def trunk(self, whitened: Tensor) -> Tensor:
        """Map float32 (B, width) whitened features to float32 (B, W) trunk features."""
        whitened = self.dropout(whitened)
        first = functional.gelu(self.first(whitened))
        second = functional.gelu(self.second(first))
        return torch.cat([whitened * self.scale, first, second], 1)

    def identity(self, features: Tensor) -> Tensor:
        """Map float32 (B, F) features to the backbone's view of the subject, float32 (B, identity) of unit length."""
        return functional.normalize(features[:, group_slices()["head"]] @ self.identity_basis, dim=1)

    def conditions(self, text: Tensor) -> tuple[Tensor, Tensor]:
        """Map float32 (A, 128) word vectors to gates float32 (A, W) in (0, 1) and identity shares (A,) in (0, 1)."""
        hidden = self.gates[1](self.gates[0](text))
        return torch.sigmoid(2 * self.gates[2](hidden)), torch.sigmoid(self.identity_share(hidden))[:, 0]

    def combine(self, trunk: Tensor, identity: Tensor, gates: Tensor, shares: Tensor) -> Tensor:
        """Join trunk (..., W), identity (..., R), gates (..., W) and shares (...) to unit vectors (..., D)."""
        learned = functional.normalize(self.project(trunk * gates), dim=-1)
        share = shares[..., None]
        # The squares of the weights add up to one, so a similarity is the shares' mean of both parts' cosines.
        return torch.cat([learned * (1 - share).sqrt(), identity.expand(*learned.shape[:-1], -1) * share.sqrt()], -1)

    def forward(self, features: Tensor, text: Tensor) -> Tensor:
        """Embed images under aspects.

        Args:
            features: float32 (B, F) as ``image_features`` returns them.
            text: float32 (A, 128) as ``TextTable.encode`` returns them.

        Returns:
            float32 (B, A, D), unit rows.
        """
        trunk = self.trunk(self.whitening(features))
        gates, shares = self.conditions(text)
        batch, aspects = len(features), len(text)
        return self.combine(
            trunk[:, None], self.identity(features)[:, None], gates[None], shares[None].expand(batch, aspects)
        )

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> tuple[Head, dict[str, str]]:
        """Load a head from a safetensors file (float16 on disk, float32 in memory), and the file's metadata.

        Raises:
            ModelError: The file is missing, damaged, no head, or made for other features than this package's.
        """
        tensors, metadata = read_tensors(path)
        if metadata.get("feature_version") != str(FEATURE_VERSION):
            raise ModelError(
                f"{path} was made for features of version {metadata.get('feature_version', 'unknown')}, but this "
                f"package computes version {FEATURE_VERSION}; reinstall it, or train a head with `tpips-train mini`"
            )
        try:
            head = cls(
                hidden=(len(tensors["first.bias"]), len(tensors["second.bias"])),
                learned=len(tensors["project.weight"]),
                identity=tensors["identity_basis"].shape[1],
                gate_hidden=len(tensors["gates.0.bias"]),
            )
            head.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True)
        except (KeyError, RuntimeError) as error:
            raise ModelError(f"{path} does not hold a head of the bundled model; reinstall the package") from error
        return head.requires_grad_(False).eval(), metadata
