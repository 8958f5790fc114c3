"""The digits of the package, and MNIST from small files that the test makes."""

import gzip
import hashlib
import struct
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from normbook.data import Dataset, digits, load, mnist, topics
from normbook.data.mnist import DownloadError, load_mnist, read_idx

TYPES = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}


def idx(array, dtype="u1"):
    """The bytes of an IDX file."""
    header = struct.pack(f">HBB{array.ndim}I", 0, TYPES[dtype], array.ndim, *array.shape)
    return header + array.astype(dtype).tobytes()


@pytest.fixture
def small_mnist(tmp_path, monkeypatch):
    """A folder that holds four small files in the place of MNIST's, and what is in them."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (7, 4, 3))
    labels = rng.integers(0, 10, 7)
    folder = tmp_path / "published"
    folder.mkdir()
    for name, part in zip(
        mnist.FILES, [images[:5], labels[:5], images[5:], labels[5:]], strict=True
    ):
        publish(folder / name, idx(part), monkeypatch)
    monkeypatch.setattr(mnist, "MIRRORS", ("http://127.0.0.1:9/",))  # nobody listens there
    return folder, images, labels


def publish(path, content, monkeypatch):
    """Write `content`, gzipped, and let MNIST's file of that name have its checksum."""
    zipped = gzip.compress(content)
    path.write_bytes(zipped)
    monkeypatch.setitem(mnist.FILES, path.name, hashlib.sha256(zipped).hexdigest())


@pytest.fixture
def server(small_mnist, monkeypatch):
    """What a web server of that folder was asked for; the first mirror is out of reach."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    asked = []

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=small_mnist[0])

        def end_headers(self):
            if "gzip" in self.headers["Accept-Encoding"]:
                self.send_header("Content-Encoding", "gzip")
            super().end_headers()

        def log_request(self, *_):
            asked.append(self.path[1:])

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=[0.01], daemon=True).start()
        mirror = f"http://127.0.0.1:{running.server_port}/"
        monkeypatch.setattr(mnist, "MIRRORS", (*mnist.MIRRORS, mirror))
        yield asked
        running.shutdown()


def test_digits():
    digits = load()
    assert digits.name == "digits"
    assert (digits.images.shape, digits.images.dtype) == ((1797, 8, 8), np.float32)
    assert (digits.images.min(), digits.images.max()) == (0, 1)
    assert digits.labels.dtype == np.int64
    # The set's description counts them.
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert np.bincount(digits.labels).tolist() == counts
    assert "CC BY 4.0" in digits.provenance
    assert "Alpaydin" in digits.provenance


def test_digits_look_like_digits():
    """A sample near the mean of its class, and the first image, read by eye."""
    digits = load()
    assert digits.labels[:10].tolist() == list(range(10))
    zero = digits.images[0] > 0.4
    assert zero[1:7, 2:6].any(axis=1).all()  # ink in all rows
    assert not zero[3:5, 3:5].any()  # and a hole


def test_damaged_digits(monkeypatch):
    monkeypatch.setattr(digits, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match=r"digits\.csv\.gz, .*damaged"):
        load()


def test_unknown_source():
    with pytest.raises(ValueError, match="'minst'; expected one of digits, mnist"):
        load("minst")


def test_split():
    digits = load()
    train, test = digits.split(seed=3)
    assert (len(train), len(test)) == (1437, 360)
    assert (train.name, train.provenance) == (digits.name, digits.provenance)
    rows = [np.column_stack([d.labels, d.images.reshape(len(d), -1)]) for d in (train, test)]
    whole = np.column_stack([digits.labels, digits.images.reshape(len(digits), -1)])
    # Together they are the whole, each image with its label.
    assert sorted(map(tuple, np.concatenate(rows))) == sorted(map(tuple, whole))
    share = np.bincount(digits.labels) * 360 / 1797
    assert np.abs(np.bincount(test.labels) - share).max() < 1


def test_split_is_shuffled():
    train, test = load().split(seed=3)
    for part in (train, test):
        same = part.labels[1:] == part.labels[:-1]
        assert 0.05 < same.mean() < 0.15  # near 1 if sorted by class


def test_split_by_seed():
    digits = load()
    first, again, other = (digits.split(seed)[1] for seed in (0, 0, 1))
    assert np.array_equal(first.images, again.images)
    assert not np.array_equal(first.images, other.images)


@pytest.mark.parametrize("test", [1, 2, 17, 1000, 1796])
def test_split_of_any_size(test):
    train, tests = load().split(seed=0, test=test)
    assert (len(train), len(tests)) == (1797 - test, test)


@pytest.mark.parametrize("test", [0, -1, 1797, 5000])
def test_split_that_leaves_a_part_empty(test):
    with pytest.raises(ValueError, match=f"test is {test}; expected 1 to 1796"):
        load().split(seed=0, test=test)


def test_labels_that_dont_fit():
    with pytest.raises(ValueError, match=r"\(3, 8, 8\) and labels of shape \(2,\)"):
        Dataset(np.zeros((3, 8, 8)), np.zeros(2), "", "")


def test_topics():
    text = topics()
    assert len(text) > 300_000
    assert "The 'assert' statement" in text or 'The "assert" statement' in text
    assert text == topics()


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_idx(tmp_path, dtype, zipped):
    array = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    content = idx(array, dtype)
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(content) if zipped else content)
    read = read_idx(path)
    assert np.array_equal(read, array)
    assert read.dtype == np.dtype(dtype).newbyteorder("=")


GOOD = idx(np.arange(24).reshape(2, 3, 4))
ZIPPED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no IDX file: it begins with b''"),
        (b"\0\0\x08", "no IDX file"),
        (b"<html>not found</html>", "no IDX file: it begins with b'<htm'"),
        (b"\0\0\x07" + GOOD[3:], "no IDX file"),
        (b"\0\1" + GOOD[2:], "no IDX file"),
        (GOOD[:7], "ends within its header"),
        (GOOD[:-1], r"should hold 24 bytes of shape \(2, 3, 4\), but has 23"),
        (GOOD + b"\0", "but has more"),
        (GOOD[:4] + b"\xff" * 12 + GOOD[16:], "but has 24"),
        (gzip.compress(GOOD[:-1], mtime=0), "but has 23"),
        (gzip.compress(GOOD + bytes(10**7), mtime=0), "but has more"),
        (ZIPPED[:-10], "is damaged"),
        (ZIPPED[:5], "is damaged"),
        (ZIPPED[:20] + b"\xff\xff\xff" + ZIPPED[23:], "(is damaged|but has)"),
        (ZIPPED[:-8] + b"\0" * 8, "is damaged"),
    ],
    ids=range(15),
)
def test_damaged_idx(tmp_path, content, problem):
    path = tmp_path / "some-images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"some-images .*{problem}"):
        read_idx(path)


def test_mnist(small_mnist):
    folder, images, labels = small_mnist
    loaded = load("mnist", folder)
    assert loaded.name == "mnist"
    assert loaded.images.dtype == np.float32
    assert np.array_equal(loaded.images, (images / 255).astype(np.float32))
    assert np.array_equal(loaded.labels, labels)
    assert loaded.labels.dtype == np.int64
    assert np.array_equal(loaded[5:].images, loaded.images[5:])


def test_mnist_is_downloaded_once(small_mnist, server, tmp_path):
    folder = tmp_path / "new" / "folder"
    for _ in range(2):
        assert np.array_equal(load_mnist(folder).labels, small_mnist[2])
    assert server == list(mnist.FILES)
    assert sorted(path.name for path in folder.iterdir()) == sorted(mnist.FILES)


def test_mnist_that_was_damaged_is_downloaded_again(small_mnist, server, tmp_path):
    name = next(iter(mnist.FILES))
    load_mnist(tmp_path)
    (tmp_path / name).write_bytes(b"damaged")
    assert np.array_equal(load_mnist(tmp_path).labels, small_mnist[2])
    assert server == [*mnist.FILES, name]


@pytest.mark.parametrize("served", [b"wrong", None])
def test_mnist_that_no_mirror_has(small_mnist, server, tmp_path, served):
    """The message names what was tried, and nothing is left of it."""
    folder, *_ = small_mnist
    name = next(iter(mnist.FILES))
    (folder / name).write_bytes(served) if served else (folder / name).unlink()
    with pytest.raises(DownloadError) as raised:
        load_mnist(tmp_path / "new")
    first, *tried, advice = str(raised.value).splitlines()
    assert first == f"{name} is not in {tmp_path / 'new'} and could not be downloaded:"
    assert [line.split(": ")[0] for line in tried] == [mirror + name for mirror in mnist.MIRRORS]
    assert ("SHA256 hash" if served else "404") in tried[-1]
    assert 'load("digits")' in advice
    assert list((tmp_path / "new").iterdir()) == []


def test_mnist_whose_parts_dont_fit(small_mnist, monkeypatch):
    folder, _, labels = small_mnist
    publish(folder / list(mnist.FILES)[1], idx(labels[:4]), monkeypatch)
    with pytest.raises(ValueError, match=r"labels of shape \(6,\)"):
        load_mnist(folder)


def test_mnist_is_unpacked_only_if_it_is_mnist(small_mnist, monkeypatch):
    """Else a small file could fill the memory."""
    folder, *_ = small_mnist
    bomb = gzip.compress(idx(np.zeros((10, 1000, 1000))))
    (folder / list(mnist.FILES)[2]).write_bytes(bomb)
    opened = []
    monkeypatch.setattr(gzip, "open", lambda *args: opened.append(args))
    with pytest.raises(DownloadError, match="t10k-images"):
        load_mnist(folder)
    assert opened == []


def test_mirrors_are_encrypted():
    assert all(mirror.startswith("https://") and mirror[-1] == "/" for mirror in mnist.MIRRORS)
