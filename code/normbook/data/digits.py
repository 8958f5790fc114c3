"""The handwritten digits that come with the package."""

import gzip
import hashlib
import io
from importlib.resources import files

import numpy as np

from normbook.data.dataset import Dataset

SHA256 = "09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22"


def load_digits() -> Dataset:
    """1,797 handwritten digits of 8 × 8 pixels, which come with the package.

    Raises
    ------
    ValueError
        the file is damaged.

    Examples
    --------
    >>> load_digits().images.shape
    (1797, 8, 8)
    """
    packed = files("normbook").joinpath("data", "digits.csv.gz").read_bytes()
    if hashlib.sha256(packed).hexdigest() != SHA256:
        raise ValueError("digits.csv.gz, which comes with normbook, is damaged: install it again")
    table = np.loadtxt(io.BytesIO(gzip.decompress(packed)), delimiter=",", dtype=np.int64)
    return Dataset(
        (table[:, :-1].reshape(-1, 8, 8) / 16).astype(np.float32),
        table[:, -1],
        "digits",
        "Optical Recognition of Handwritten Digits, test part, by E. Alpaydin and C. Kaynak, 1998, "
        "UCI Machine Learning Repository, doi.org/10.24432/C50P49, CC BY 4.0.",
    )
