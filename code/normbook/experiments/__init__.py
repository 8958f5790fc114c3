"""The experiments of the book, a module each, their records, and what is concluded from them.

``python -m normbook.experiments`` runs those whose records are missing or out of date. `records`
reads them, `compare` says whether two arms differ, and `verdicts` shows it.
"""

from normbook.experiments.comparison import Comparison, compare, interval
from normbook.experiments.records import COMMAND, Experiment, RecordsError, records
from normbook.experiments.verdicts import Verdicts, verdicts

NAMES = (
    "forgotten_eval",
    "values_per_statistic",
    "cnn_norms",
    "mlp_layer_norm",
    "usable_rates",
    "warm_up",
    "rnn_rows",
    "rnn_characters",
)

__all__ = [
    "COMMAND",
    "NAMES",
    "Comparison",
    "Experiment",
    "RecordsError",
    "Verdicts",
    "compare",
    "interval",
    "records",
    "verdicts",
]
