"""Searching the settings of a training run, as the paper does (Appendix C.1, Table 7)."""

from train.sweep.config import Objective, Report, SweepConfig, SweepError, TrialFailed
from train.sweep.spaces import SEARCH_SPACES, Choice, LogUniform
from train.sweep.study import SweepStudy
from train.sweep.workers import run_sweep, work
from train.trainer.preset_file import read_preset, write_preset

__all__ = [
    "SEARCH_SPACES",
    "Choice",
    "LogUniform",
    "Objective",
    "Report",
    "SweepConfig",
    "SweepError",
    "SweepStudy",
    "TrialFailed",
    "read_preset",
    "run_sweep",
    "work",
    "write_preset",
]
