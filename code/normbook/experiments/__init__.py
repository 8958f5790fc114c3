"""The experiments of the book, a module each, and their records.

``python -m normbook.experiments`` runs those whose records are missing or out of date. Read the
records with ``normbook.records.records``.
"""

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
