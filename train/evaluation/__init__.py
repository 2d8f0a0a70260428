"""Measuring models against people's judgements, as section 5 of the paper does."""

from train.evaluation.evaluate import Evaluation, EvaluationConfig, evaluate, evaluate_judges
from train.evaluation.judges import Judge
from train.evaluation.model_names import load_judge
from train.evaluation.own_models import judge_of_model
from train.evaluation.report_text import latex_table, markdown_report, print_tables
from train.evaluation.results_json import results_json
from train.evaluation.scoring import ScoringConfig

__all__ = [
    "Evaluation",
    "EvaluationConfig",
    "Judge",
    "ScoringConfig",
    "evaluate",
    "evaluate_judges",
    "judge_of_model",
    "latex_table",
    "load_judge",
    "markdown_report",
    "print_tables",
    "results_json",
]
