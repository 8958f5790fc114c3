"""MNIST: 70,000 handwritten digits of 28 × 28 pixels, downloaded when asked for.

LeCun, Bottou, Bengio and Haffner 1998, Gradient-based learning applied to document recognition.
"""

import gzip
import zlib
from math import prod
from pathlib import Path

import numpy as np
import pooch

from normbook.data.dataset import Dataset

# The first is the one that PyTorch's torchvision takes.
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
# ruff: noqa: E501
# Images and labels of the training part, then of the test part: their SHA-256.
FILES = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
PROVENANCE = (
    "MNIST, by Y. LeCun, C. Cortes and C. Burges: 70,000 digits written by employees of the US "
    "Census Bureau and by high-school students, 28 × 28 pixels. The last 10,000 are its test part."
)

_IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


class DownloadError(OSError):
    """A file is missing and could not be had; the message tells what was tried."""


def load_mnist(folder: str | Path | None = None) -> Dataset:
    """All of MNIST, the 60,000 training images first, from `folder` or the web.

    `folder` holds the four files as they are published, or will hold them; None means the user's
    cache.

    Raises
    ------
    DownloadError
        a file is missing and could not be downloaded.
    ValueError
        a file is damaged, or the four don't belong together.
    """
    folder = pooch.os_cache("normbook") / "mnist" if folder is None else Path(folder)
    paths = [_fetch(name, folder) for name in FILES]
    images, labels = (
        np.concatenate([read_idx(path) for path in paths[part::2]]) for part in (0, 1)
    )
    return Dataset(images.astype(np.float32) / 255, labels.astype(np.int64), "mnist", PROVENANCE)


def _fetch(name, folder):
    """The path of a file of MNIST, which is downloaded unless it is there, unharmed."""
    # As it is published: a server that may call it encoded has it unpacked on the way.
    get = pooch.HTTPDownloader(progressbar=True, headers={"Accept-Encoding": "identity"})
    problems = []
    for mirror in MIRRORS:
        try:
            return pooch.retrieve(mirror + name, f"sha256:{FILES[name]}", name, folder, None, get)
        except (OSError, ValueError) as error:  # no connection; a wrong checksum
            problems.append(f"{mirror}{name}: {error}")
    raise DownloadError(
        "\n".join([f"{name} is not in {folder} and could not be downloaded:", *problems])
        + "\nWithout a network: put the four files of MNIST there by hand, or use "
        'load("digits"), which comes with the package.'
    )


def read_idx(path: str | Path) -> np.ndarray:
    """The array in an IDX file, gzipped or not, the format in which MNIST is published.

    Two zero bytes, one that tells the type, one for the number of axes; then their lengths and the
    values, all big-endian.

    Raises
    ------
    ValueError
        the file is not IDX, or is damaged; the message names it and the problem.
    """
    path = Path(path)
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with (gzip.open if zipped else open)(path, "rb") as file:
            magic = file.read(4)
            if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _IDX_TYPES:
                raise ValueError(f"{path} is no IDX file: it begins with {magic!r}")
            dtype, rank = np.dtype(_IDX_TYPES[magic[2]]), magic[3]
            lengths = file.read(4 * rank)
            if len(lengths) < 4 * rank:
                raise ValueError(f"{path} ends within its header")
            shape = tuple(np.frombuffer(lengths, ">u4").tolist())
            size = prod(shape) * dtype.itemsize
            values = _read(file, size + 1)  # no more, whatever else is in there
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if len(values) != size:
        has = "more" if len(values) > size else f"{len(values)}"
        raise ValueError(f"{path} should hold {size} bytes of shape {shape}, but has {has}")
    return np.frombuffer(values, dtype).astype(dtype.newbyteorder("=")).reshape(shape)


def _read(file, most):
    """The next bytes of a file, at most that many; memory is taken only for what there is."""
    chunks, left = [], most
    while left > 0 and (chunk := file.read(min(left, 1 << 20))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)
