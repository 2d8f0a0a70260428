"""Training of late, mid and early fusion and the triplet head (section 4, Appendix C.1)."""

from train.trainer.config import TrainingConfig
from train.trainer.errors import TrainingError
from train.trainer.presets import PRESETS, preset

__all__ = ["PRESETS", "TrainingConfig", "TrainingError", "preset"]
