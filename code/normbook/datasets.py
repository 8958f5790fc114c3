"""Real data: handwritten digits that come with the package, larger sets when asked for."""

import gzip
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np

DIGITS_SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labeled images.

    Attributes
    ----------
    images : (N, H, W), float32, 0 for the ground to 1 for ink.
    labels : (N,), int64, the class of each image, from 0.
    name : what `load` calls it.
    provenance : who made it, and under which license.

    Raises
    ------
    ValueError : there isn't one label for each image, or the images aren't (N, H, W).

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.images.shape, digits.labels[:5]
    ((1797, 8, 8), array([0, 1, 2, 3, 4]))
    >>> len(digits[:100])
    100
    """

    images: np.ndarray
    labels: np.ndarray
    name: str
    provenance: str

    def __post_init__(self):
        if self.images.ndim != 3 or self.labels.shape != self.images.shape[:1]:
            raise ValueError(
                f"images of shape {self.images.shape} and labels of shape {self.labels.shape}; "
                "expected (N, H, W) and (N,)"
            )

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, which) -> "Dataset":
        """Some of the images, by a slice or an array of positions."""
        return replace(self, images=self.images[which], labels=self.labels[which])

    def split(self, seed: int, test: int = 360) -> tuple["Dataset", "Dataset"]:
        """Two parts without an image in common: for training, and `test` images for testing.

        Each class has the same share of both, up to one image. Both are in random order. The same
        seed gives the same parts.

        Raises
        ------
        ValueError : `test` leaves one of the parts empty.

        Examples
        --------
        >>> train, test = load("digits").split(seed=0)
        >>> len(train), len(test)
        (1437, 360)
        """
        if not 0 < test < len(self):
            raise ValueError(f"test is {test}; expected 1 to {len(self) - 1}")
        rng = np.random.default_rng(seed)
        classes, class_of = np.unique(self.labels, return_inverse=True)
        # Each class gives its share, rounded down; those that lose most by it give one more.
        share = np.bincount(class_of) * test / len(self)
        count = np.floor(share).astype(int)
        count[np.argsort(count - share, kind="stable")[: test - count.sum()]] += 1
        members = [rng.permutation(np.flatnonzero(class_of == c)) for c in range(len(classes))]
        parts = zip(*(np.split(m, [k]) for m, k in zip(members, count, strict=True)), strict=True)
        in_test, in_train = (rng.permutation(np.concatenate(part)) for part in parts)
        return self[in_train], self[in_test]


def load(source: str = "digits", folder: str | Path | None = None) -> Dataset:
    """Handwritten digits, 0 to 9.

    Parameters
    ----------
    source : "digits", 1,797 images of 8 × 8 pixels that come with the package; or "mnist", 70,000
        of 28 × 28, of which the last 10,000 are the test part. These are downloaded once, 11.6 MB.
    folder : where the files of "mnist" are kept; None means the user's cache.

    Raises
    ------
    ValueError : there is no such source, or a file is damaged.
    DownloadError : MNIST isn't there and could not be downloaded.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.name, len(digits)
    ('digits', 1797)
    """
    if source not in _SOURCES:
        raise ValueError(f"there is no source {source!r}; expected one of {', '.join(_SOURCES)}")
    return _SOURCES[source](folder)


def topics() -> str:
    """The help topics that come with Python, as one text: English prose and grammar of Python.

    About 465,000 characters in Python 3.11; other versions have others.

    Examples
    --------
    >>> "boolean" in topics()
    True
    """
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics))


def _load_digits(folder):
    packed = files("normbook").joinpath("data", "digits.csv.gz").read_bytes()
    if hashlib.sha256(packed).hexdigest() != DIGITS_SHA256:
        raise ValueError("digits.csv.gz, which comes with normbook, is damaged: install it again")
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.int64)
    return Dataset(
        (table[:, :-1].reshape(-1, 8, 8) / 16).astype(np.float32),
        table[:, -1],
        "digits",
        "Optical Recognition of Handwritten Digits, test part, by E. Alpaydin and C. Kaynak, 1998, "
        "UCI Machine Learning Repository, doi.org/10.24432/C50P49, CC BY 4.0.",
    )


def _load_mnist(folder):
    from normbook.mnist import load_mnist  # here, since it needs what is above

    return load_mnist(folder)


_SOURCES: dict[str, Callable[..., Dataset]] = {"digits": _load_digits, "mnist": _load_mnist}
