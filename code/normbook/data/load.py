"""Real data by name: what comes with the package, and larger sets when asked for."""

from pathlib import Path

from normbook.data.dataset import Dataset
from normbook.data.digits import load_digits
from normbook.data.mnist import load_mnist

SOURCES = ("digits", "mnist")


def load(source: str = "digits", folder: str | Path | None = None) -> Dataset:
    """Handwritten digits, 0 to 9.

    Parameters
    ----------
    source
        "digits", 1,797 images of 8 × 8 pixels that come with the package; or "mnist", 70,000
        of 28 × 28, of which the last 10,000 are the test part. These are downloaded once, 11.6 MB.
    folder
        where the files of "mnist" are kept; None means the user's cache.

    Raises
    ------
    ValueError
        there is no such source, or a file is damaged.
    DownloadError
        MNIST isn't there and could not be downloaded.

    Examples
    --------
    >>> digits = load("digits")
    >>> digits.name, len(digits)
    ('digits', 1797)
    """
    if source not in SOURCES:
        raise ValueError(f"there is no source {source!r}; expected one of {', '.join(SOURCES)}")
    return load_digits() if source == "digits" else load_mnist(folder)
