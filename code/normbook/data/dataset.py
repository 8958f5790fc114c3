"""Labeled images, and how to split them."""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Dataset:
    """Labeled images.

    Attributes
    ----------
    images
        (N, H, W), float32, 0 for the ground to 1 for ink.
    labels
        (N,), int64, the class of each image, from 0.
    name
        what `normbook.data.load` calls it.
    provenance
        who made it, and under which license.

    Raises
    ------
    ValueError
        there isn't one label for each image, or the images aren't (N, H, W).

    Examples
    --------
    >>> from normbook.data import load
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
        ValueError
            `test` leaves one of the parts empty.

        Examples
        --------
        >>> from normbook.data import load
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
