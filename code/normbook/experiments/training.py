"""The loops that the experiments share: seeded, and the same to the bit when run again on a CPU."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from normbook.data import Dataset

FIRST = 5  # steps: so many, rounding errors have not yet grown


@dataclass(frozen=True)
class Images:
    """Images, (N, 1, H, W), float32, and their labels, (N,), int64.

    Examples
    --------
    >>> images = Images(torch.zeros(3, 1, 8, 8), torch.tensor([0, 1, 2]))
    >>> len(images), images[images.y > 0].y
    (3, tensor([1, 2]))
    """

    x: Tensor
    y: Tensor

    def __len__(self):
        return len(self.y)

    def __getitem__(self, which: Tensor) -> "Images":
        return Images(self.x[which], self.y[which])


@dataclass(frozen=True)
class Parts:
    """Images to learn from, to choose a learning rate by, and to test with at the very end.

    Examples
    --------
    >>> from normbook.data import load
    >>> parts = split(load("digits"), seed=0)
    >>> len(parts.train), len(parts.validation), len(parts.test)
    (1257, 180, 360)
    """

    train: Images
    validation: Images
    test: Images


@contextmanager
def reproducible(seed: int):
    """One thread, deterministic algorithms, and torch's random numbers from `seed`.

    On one kind of CPU, whatever is computed inside is then the same to the bit, each time. At the
    end all is as it was before. Convolutions are PyTorch's own and not oneDNN's, which differ more
    from CPU to CPU, and are slower with small batches.

    Examples
    --------
    >>> with reproducible(seed=0):
    ...     first = torch.randn(3)
    >>> with reproducible(seed=0):
    ...     second = torch.randn(3)
    >>> bool((first == second).all())
    True
    """
    threads = torch.get_num_threads()
    strict = torch.are_deterministic_algorithms_enabled()
    fill = torch.utils.deterministic.fill_uninitialized_memory
    onednn = torch.backends.mkldnn.enabled
    with torch.random.fork_rng(devices=[]):
        try:
            torch.set_num_threads(1)
            torch.use_deterministic_algorithms(True)
            torch.utils.deterministic.fill_uninitialized_memory = False  # costs time
            torch.backends.mkldnn.enabled = False
            torch.default_generator.manual_seed(seed)
            yield
        finally:
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(strict)
            torch.utils.deterministic.fill_uninitialized_memory = fill
            torch.backends.mkldnn.enabled = onednn


def split(data: Dataset, seed: int, validation: int = 180, test: int = 360) -> Parts:
    """`data` in three parts by `seed`, of mean 0 and standard deviation 1 over the training part.

    One mean and one standard deviation for all pixels, so that images stay images.

    Examples
    --------
    >>> from normbook.data import load
    >>> x = split(load("digits"), seed=0).train.x
    >>> x.shape, bool(x.mean().abs() < 1e-5), round(x.std().item(), 3)
    (torch.Size([1257, 1, 8, 8]), True, 1.0)
    """
    rest, tests = data.split(seed, test)
    return standardize(*rest.split(seed, validation), tests)


def standardize(train: Dataset, validation: Dataset, test: Dataset) -> Parts:
    """The three as tensors, of mean 0 and standard deviation 1 over the pixels of the first.

    Examples
    --------
    >>> from normbook.data import load
    >>> digits = load("digits")
    >>> parts = standardize(digits[:1000], digits[1000:1200], digits[1200:])
    >>> len(parts.test)
    597
    """
    mean, std = train.images.mean(), train.images.std()

    def tensors(part):
        x = torch.from_numpy((part.images - mean) / std)
        return Images(x.unsqueeze(1), torch.from_numpy(part.labels))

    return Parts(tensors(train), tensors(validation), tensors(test))


def batches(n: int, batch_size: int, epochs: int, seed: int) -> Iterator[Tensor]:
    """Positions of the images of one batch after the other, in an order that `seed` tells.

    Each epoch has all images in a new order; those that don't fill a batch are left out.

    Raises
    ------
    ValueError
        there are fewer images than a batch takes.

    Examples
    --------
    >>> [len(which) for which in batches(10, batch_size=4, epochs=2, seed=0)]
    [4, 4, 4, 4]
    """
    if not 0 < batch_size <= n:
        raise ValueError(f"batch_size is {batch_size}; expected 1 to {n}, the number of images")
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(n, generator=generator)
        yield from order[: n - n % batch_size].split(batch_size)


def train(
    model: nn.Module,
    images: Images,
    *,
    epochs: int,
    batch_size: int,
    rate: float,
    seed: int,
    optimizer: str = "sgd",
    momentum: float = 0.9,
) -> list[dict]:
    """Train `model` with the cross-entropy, in place; returns a row for every step.

    Parameters
    ----------
    model
        takes (N, 1, H, W), gives (N, classes). It is put into train mode, and left in it.
    rate
        the learning rate, constant.
    seed
        tells the order of the images. Models trained with the same seed see the same batches.
    optimizer
        "sgd" or "adam".
    momentum
        of SGD.

    Returns
    -------
    list of {"step": 1, "loss": 2.3}, the loss being the batch's before the step. Training ends
    early if it is no longer finite; it is then None.

    Examples
    --------
    >>> from normbook.data import load
    >>> parts = split(load("digits"), seed=0)
    >>> model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    >>> how = dict(epochs=1, batch_size=32, rate=0.1, seed=0)
    >>> rows = train(model, parts.train, **how)
    >>> len(rows), rows[-1]["loss"] < rows[0]["loss"]
    (39, True)
    """
    make = {
        "sgd": lambda p: torch.optim.SGD(p, lr=rate, momentum=momentum),
        "adam": lambda p: torch.optim.Adam(p, lr=rate),
    }
    if optimizer not in make:
        raise ValueError(f"optimizer is {optimizer!r}; expected one of {', '.join(make)}")
    descent = make[optimizer](model.parameters())
    model.train()
    rows = []
    for step, which in enumerate(batches(len(images), batch_size, epochs, seed), 1):
        batch = images[which]
        loss = F.cross_entropy(model(batch.x), batch.y)
        finite = bool(loss.isfinite())
        rows.append({"step": step, "loss": loss.item() if finite else None})
        if not finite:
            break
        descent.zero_grad()
        loss.backward()
        descent.step()
    return rows


@torch.no_grad()
def error(
    model: nn.Module, images: Images, *, mode: str = "eval", batch_size: int | None = None
) -> float:
    """How many of the images `model` gets wrong, in percent.

    Parameters
    ----------
    mode
        "eval", or "train" to predict as with a forgotten ``eval()``. The model itself is left
        alone, its running statistics and its mode included.
    batch_size
        images that are predicted together, in their order; None means all.

    Examples
    --------
    >>> images = Images(torch.eye(4).reshape(4, 1, 2, 2), torch.tensor([0, 1, 2, 0]))
    >>> error(nn.Flatten(), images)  # in percent
    25.0
    """
    if mode not in ("eval", "train"):
        raise ValueError(f"mode is {mode!r}; expected 'eval' or 'train'")
    model = copy.deepcopy(model).train(mode == "train")
    size = batch_size or len(images)
    parts = zip(images.x.split(size), images.y.split(size), strict=True)
    wrong = sum(int((model(x).argmax(1) != y).sum()) for x, y in parts)
    return 100 * wrong / len(images)


def train_best(
    build: Callable[[], nn.Module], parts: Parts, rates: Sequence[float], **how
) -> tuple[nn.Module, list[dict]]:
    """Train a fresh model at each learning rate; returns the best of them, and a row for each.

    The best one has the lowest loss on the validation part, which tells more than the errors on so
    few images. The test part has no say. `how` are the other arguments of `train`.

    Returns
    -------
    model
        the best one.
    rows
        of each rate the rate; ``first_loss``, the mean loss of the first five steps; ``loss``,
        that of the last tenth of all steps, None if training diverged; ``validation_loss``, None
        if it isn't finite; ``error``, in percent, of the test part; ``chosen``, true for the best.

    Examples
    --------
    >>> from normbook.data import load
    >>> parts = split(load("digits"), seed=0)
    >>> def build():
    ...     return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    >>> how = dict(epochs=1, batch_size=32, seed=0)
    >>> model, rows = train_best(build, parts, rates=(1e-6, 0.1), **how)
    >>> [row["chosen"] for row in rows]
    [False, True]
    """
    models, rows = [], []
    for rate in rates:
        model = build()
        losses = [row["loss"] for row in train(model, parts.train, rate=rate, **how)]
        models.append(model)
        rows.append(
            {
                "rate": rate,
                "first_loss": _mean(losses[:FIRST]),
                "loss": _mean(losses[-max(1, len(losses) // 10) :]),
                "validation_loss": _loss(model, parts.validation),
                "error": round(error(model, parts.test), 4),
            }
        )
    merits = [inf if row["validation_loss"] is None else row["validation_loss"] for row in rows]
    best = merits.index(min(merits))
    return models[best], [{**row, "chosen": i == best} for i, row in enumerate(rows)]


def _mean(losses):
    return None if None in losses else round(sum(losses) / len(losses), 6)


@torch.no_grad()
def _loss(model, images):
    loss = F.cross_entropy(copy.deepcopy(model).eval()(images.x), images.y)
    return round(loss.item(), 6) if loss.isfinite() else None
