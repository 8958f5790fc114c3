"""Every word that a widget shows, in English and in Chinese."""

from normbook.core.scheme import AXIS_NAMES

_language = "en"

ENGLISH = {
    "language": "en",
    "comma": ", ",
    "stop": ". ",
    "axes": AXIS_NAMES,
    "depth": "depth",
    "symbols": {
        "raw": "x",
        "centered": "x − μ",
        "squared": "(x − μ)²",
        "normalized": "x̂",
        "output": "y",
    },
    "layers": {
        "LayerNorm (n d)": "along the row: LayerNorm",
        "BatchNorm1d (n d)": "down the column: BatchNorm1d",
    },
    "widget": "Who shares a mean and a variance",
    "layer": "Layer",
    "average_over": "average over",
    "no_name": "no usual name",
    "number_of_groups": "groups",
    "nothing": "nothing",
    "all": "the tensor",
    "mean_square": "mean x²",
    "axis": "{name} {axis}",
    "summary": "average over {over} → one {pair} per {per}",
    "summary_all": "average over {over} → one {pair} for all cells",
    "parameters": "one {pair} per {per}: {count} of each",
    "parameters_all": "one {pair} for all cells",
    "no_parameters": "no γ, β of its own",
    "same_cells": "The same statistics, with other parameters: {names}.",
    "share": "Light the cells that share",
    "who": "who shares {pair}?",
    "steps": "What the cells show, step by step",
    "step_raw": "input",
    "step_centered": "1 mean",
    "step_squared": "2 variance",
    "step_square": "2 mean square",
    "step_normalized": "3 normalize",
    "step_output": "4 scale, shift",
    "groups": "Groups",
    "many": "{groups} groups, too many to list: point at a cell to see its group.",
    "no_cells": "no cells",
    "both": "In each cell the input x, and below it x̂ (“x hat”): x normalized.",
    "next": "And now: {label}",
    "hint": "Point at a cell, tap it, or move with the arrow keys. Which others light up?",
    "shares": "One of {count} cells that share a mean and a variance: all of {group}",
    "shares_square": "One of {count} cells that share a mean square: all of {group}",
    "shares_parameters": "One of {count} cells that share {pair}: all of {group}",
    "alone": "Alone in its group, it is its own mean: x̂ is 0",
    "constant": "Its mean and variance are the running statistics, whatever the batch holds",
    "unseen_groups": "In {count} groups (the first: {group}) no training batch had two real cells. "
    "Their running mean and variance are still 0 and 1, so x̂ is almost x.",
    "unseen": "No training batch had two real cells here, so {group} has no running statistics",
    "zero_variance": "All cells of the group are equal: the variance is 0, and every x̂ is 0",
    "refuses": "Here PyTorch refuses. {error}",
    "masked": "{cell} is padding: it takes part in nothing",
    "mode": "Mode",
    "train": "train",
    "eval": "eval",
    "train_step": "train on this batch",
    "running": "{group}: running mean {mean}, running variance {variance}, batches seen: {batches}",
    "running_mean": "running mean",
    "batch": "samples in the batch",
    "gradient": "gradient",
    "upstream": "upstream dy",
    "gradient_of": "dy = {dy} arrives at one output, {cell}. "
    "Gradient reaches {count} inputs: its group",
    "gradient_constant": "dy = {dy} arrives at one output, {cell}. "
    "Gradient reaches this input only: running statistics don't depend on x",
    "unpin": "unpin",
    "edit": "edit the value",
    "less": "less by 1",
    "more_by_one": "more by 1",
    "cell_value": "{cell}: x\u00a0=\u00a0{value}",
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
    "done": " ✓ That’s it.",
    "copy": "copy",
    "copy_line": "copy the line of {name}",
    "copied": "Copied.",
    "reset": "reset",
    "more": "more",
    "explorer": {
        "widget": "Curves to pick from",
        "along": "Left and right arrow keys move along the points.",
        "to": "to",
        "shaded": "Shaded: ",
        "table": "Show as table",
        "play": "play",
        "pause": "pause",
        "next_one": "next",
    },
}

CHINESE = {
    "language": "zh",
    "comma": "、",
    "stop": "。",
    "axes": {
        "n": "样本",
        "c": "通道",
        "h": "行",
        "w": "列",
        "t": "词元",
        "d": "特征",
        "l": "位置",
        "g": "组",
        "k": "组内通道",
        "o": "输出通道",
        "i": "输入通道",
    },
    "depth": "深度",
    "symbols": ENGLISH["symbols"],
    "layers": {
        "LayerNorm (n d)": "沿行：LayerNorm",
        "BatchNorm1d (n d)": "沿列：BatchNorm1d",
        "BatchNorm per time step": "逐时间步的 BatchNorm",
        "BatchNorm pooled over time": "跨时间步合并的 BatchNorm",
        "BatchNorm1d, sequence as channel": "把序列当作通道的 BatchNorm1d",
        "LayerNorm over C, H, W": "在 C、H、W 上的 LayerNorm",
        "LayerNorm over channels": "仅在通道上的 LayerNorm",
        "LayerNorm per token": "逐词元的 LayerNorm",
        "LayerNorm over T, D": "在 T、D 上的 LayerNorm",
        "LayerNorm over D, L": "在 D、L 上的 LayerNorm",
        "LayerNorm over W only": "仅在 W 上的 LayerNorm",
        "BatchNorm per time step, shared γ, β": "逐时间步的 BatchNorm，共用 γ、β",
    },
    "widget": "哪些单元格共用同一个均值和方差",
    "layer": "归一化层",
    "average_over": "求平均的轴",
    "no_name": "没有通用名称",
    "number_of_groups": "组数",
    "nothing": "零个轴",
    "all": "整个张量",
    "mean_square": "x² 的均值",
    "axis": "{name} {axis}",
    "summary": "对 {over} 求平均 → 每个 {per} 有自己的 {pair}",
    "summary_all": "对 {over} 求平均 → 所有单元格共用 {pair}",
    "parameters": "每个 {per} 有自己的 {pair}，各 {count} 个",
    "parameters_all": "所有单元格共用一个 {pair}",
    "no_parameters": "没有自己的 γ、β",
    "same_cells": "统计量相同而参数不同的层：{names}。",
    "share": "点亮共用下列量的单元格",
    "who": "哪些格共用 {pair}？",
    "steps": "单元格里显示什么，逐步来看",
    "step_raw": "输入",
    "step_centered": "1 均值",
    "step_squared": "2 方差",
    "step_square": "2 均方",
    "step_normalized": "3 归一化",
    "step_output": "4 缩放、平移",
    "groups": "分组",
    "many": "共 {groups} 组，不一一列出：指向一个单元格即可看到它的组。",
    "no_cells": "没有单元格",
    "both": "每格上面是输入 x，下面是归一化后的 x̂。",
    "next": "接着看：{label}",
    "hint": "指向或点按一个单元格，也可用方向键移动。还有哪些会一起亮？",
    "shares": "{group} 的全部 {count} 个单元格共用一个均值和一个方差，它是其中之一",
    "shares_square": "{group} 的全部 {count} 个单元格共用一个均方，它是其中之一",
    "shares_parameters": "{group} 的全部 {count} 个单元格共用 {pair}，它是其中之一",
    "alone": "组里只有它自己，均值就是它本身：x̂ 为 0",
    "constant": "它的均值和方差是滑动统计量，与这个批次的内容无关",
    "unseen_groups": "有 {count} 个组（第一个是 {group}）在训练批次中从未有过两个非填充单元格："
    "滑动均值和滑动方差仍是 0 和 1，x̂ 几乎就是 x。",
    "unseen": "训练时没有一个批次在这里有两个非填充单元格：{group} 没有滑动统计量",
    "zero_variance": "组内各单元格相等：方差为 0，x̂ 全为 0",
    "refuses": "这时 PyTorch 会报错：{error}",
    "masked": "{cell} 是填充，不参与任何计算",
    "mode": "模式",
    "train": "训练",
    "eval": "评估",
    "train_step": "用这个批次训练一次",
    "running": "{group}：滑动均值 {mean}，滑动方差 {variance}，已见批次：{batches}",
    "running_mean": "滑动均值",
    "batch": "批次中的样本数",
    "gradient": "梯度",
    "upstream": "上游梯度 dy",
    "gradient_of": "dy = {dy} 只到达一个输出：{cell}。有梯度的输入共 {count} 个，即它的整组",
    "gradient_constant": "dy = {dy} 只到达一个输出：{cell}。只有这一个输入有梯度：滑动统计量不依赖于 x",  # noqa: E501
    "unpin": "取消固定",
    "edit": "修改数值",
    "less": "减 1",
    "more_by_one": "加 1",
    "cell_value": "{cell}：x\u00a0=\u00a0{value}",
    "new_value": "{cell} 的新数值",
    "parameters_of": "{group} 的：",
    "length": "{sample} 的长度",
    "per_step": "各时间步的样本数",
    "refused": "“{typed}”不是数字。什么都没有改变。",
    "refused_negative": "“{typed}”不是大于或等于 0 的数字。什么都没有改变。",
    "refused_whole": "“{typed}”不是 {min} 到 {max} 之间的整数。什么都没有改变。",
    "moved": "{total} 个输出中有 {count} 个变了。",
    "prompt_do": "把 {from} 改成 {to}：哪些输出会变？",
    "prompt_undo": "改回 {from}",
    "done": " ✓ 对了。",
    "copy": "复制",
    "copy_line": "复制 {name} 的代码",
    "copied": "已复制。",
    "reset": "重置",
    "more": "更多",
    "explorer": {
        "widget": "可供选择的曲线",
        "along": "用左右方向键逐点移动。",
        "to": "至",
        "shaded": "阴影：",
        "table": "显示为表格",
        "play": "播放",
        "pause": "暂停",
        "next_one": "下一个",
    },
}

LANGUAGES = {"en": ENGLISH, "zh": CHINESE}


def use_language(language: str) -> None:
    """Let all widgets made from now on speak this language: "en" or "zh".

    Examples
    --------
    >>> use_language("zh")
    >>> use_language("en")
    """
    global _language
    words_in(language)
    _language = language


def words_in(language: str | None = None) -> dict:
    """All words in this language; by default the one that `use_language` set.

    Raises
    ------
    ValueError
        there are no words in this language.
    """
    language = language or _language
    if language not in LANGUAGES:
        raise ValueError(f"language is {language!r}; expected one of {sorted(LANGUAGES)}")
    return LANGUAGES[language]
