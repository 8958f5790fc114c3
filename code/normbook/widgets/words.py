"""Every word that a widget shows, in English and in Chinese."""

_language = "en"

ENGLISH = {
    "language": "en",
    "comma": ", ",
    "stop": ". ",
    "axes": {
        "n": "sample",
        "c": "channel",
        "h": "row",
        "w": "column",
        "t": "token",
        "d": "feature",
        "l": "position",
        "g": "group",
    },
    "symbols": {
        "raw": "x",
        "centered": "x − μ",
        "squared": "(x − μ)²",
        "normalized": "x̂",
        "output": "y",
    },
    "layers": {
        "LayerNorm (n d)": "LayerNorm, along the row",
        "BatchNorm1d (n d)": "BatchNorm1d, down the column",
    },
    "widget": "Who shares a mean and a variance",
    "layer": "Layer",
    "average_over": "average over",
    "no_name": "no usual name",
    "number_of_groups": "groups",
    "nothing": "nothing",
    "all": "the tensor",
    "mean_square": "mean x²",
    "summary": "average over {over} → one {pair} per {per}",
    "summary_all": "average over {over} → one {pair} for all cells",
    "parameters": "one {pair} per {per}: {count} of each",
    "no_parameters": "no γ, β of its own",
    "same_statistics": "Same statistics: {names}.",
    "share": "Light the cells that share",
    "share_statistics": "share μ, σ²",
    "share_parameters": "share γ, β",
    "steps": "What the cells show, step by step",
    "step_raw": "input",
    "step_centered": "1 mean",
    "step_squared": "2 variance",
    "step_normalized": "3 normalize",
    "step_output": "4 scale, shift",
    "groups": "Groups",
    "many": "{groups} groups, too many to list: point at a cell to see its group.",
    "no_cells": "no cells",
    "hint": "Point at a cell, tap it, or move with the arrow keys. Which others light up?",
    "shares": "One of {count} cells that share a mean and a variance: all of {group}",
    "shares_parameters": "One of {count} cells that share γ and β: all of {group}",
    "alone": "Alone in its group, it is its own mean: x̂ is 0",
    "constant": "Its mean and variance are the running statistics, whatever the batch holds",
    "unseen": "No training batch had two real cells here: there are no running statistics for {group}",
    "zero_variance": "All cells of the group are equal: the variance is 0, and every x̂ is 0",
    "refuses": "Here PyTorch refuses. {error}",
    "masked": "{cell} is padding: it takes part in nothing",
    "mode": "Mode",
    "train": "train",
    "eval": "eval",
    "train_step": "train on this batch",
    "running": "running mean {mean}, running variance {variance}, batches seen: {batches}",
    "tracked": "running mean = {keep} · {old} + {momentum} · {mean} = {now}",
    "batch": "samples in the batch (of {max})",
    "gradient": "gradient",
    "upstream": "upstream dy",
    "gradient_of": "dy = {dy} arrives at one output, {cell}. Gradient reaches {count} inputs: its group",
    "gradient_constant": "dy = {dy} arrives at one output, {cell}. Gradient reaches this input only: "
    "running statistics don't depend on x",
    "edit": "edit the value",
    "less": "less by 1",
    "more_by_one": "more by 1",
    "cell_value": "{cell}: x = {value}",
    "new_value": "new value of {cell}",
    "parameters_of": "of {group}:",
    "length": "length of {sample}",
    "per_step": "samples at each step",
    "refused": "“{typed}” is not a number. Nothing has changed.",
    "refused_negative": "“{typed}” is not a number of at least 0. Nothing has changed.",
    "refused_whole": "“{typed}” is not a whole number from {min} to {max}. Nothing has changed.",
    "moved": "{count} of {total} outputs moved.",
    "prompt_do": "Change {from} to {to}: which outputs move?",
    "prompt_undo": "Back to {from}",
    "copy": "copy",
    "copy_line": "copy the line of {name}",
    "copied": "Copied.",
    "reset": "reset",
    "more": "more",
}  # fmt: skip

CHINESE = {}

LANGUAGES = {"en": ENGLISH, "zh": CHINESE}


def use_language(language: str) -> None:
    """Let all widgets made from now on speak this language: "en" or "zh"."""
    global _language
    words_in(language)
    _language = language


def words_in(language: str | None = None) -> dict:
    """All words in this language; by default the one that `use_language` set.

    Raises
    ------
    ValueError : there are no words in this language.
    """
    language = language or _language
    if language not in LANGUAGES:
        raise ValueError(f"language is {language!r}; expected one of {sorted(LANGUAGES)}")
    return LANGUAGES[language]
