"""Get a file of known size and checksum from the web: resumed after a cut, never half or wrong."""

import hashlib
import os
import re
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

TRIES = 3  # for each mirror, as long as something comes; each goes on where the last was cut
TIMEOUT = 30  # seconds without a byte
CHUNK = 1 << 16


class DownloadError(OSError):
    """A file is missing and could not be had; the message tells what was tried."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as it must be: its name, its length in bytes, its SHA-256 in hex digits.

    Raises
    ------
    ValueError
        the name leads into another folder, or isn't one of letters, digits, . _ and -.
    """

    name: str
    size: int
    sha256: str

    def __post_init__(self):
        if not re.fullmatch(r"\w[\w.-]*", self.name):
            raise ValueError(f"name is {self.name!r}; expected that of a file, without a folder")

    def is_at(self, path: Path) -> bool:
        """Whether this very file, complete and unharmed, lies at `path`."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


def download(file: RemoteFile, folder: Path, mirrors: Sequence[str]) -> Path:
    """The path of `file` in `folder`, where it is brought first unless it is there, unharmed.

    `mirrors` are addresses that give the file when its name is appended, in the order to try. What
    has arrived waits in a ``.part`` file, from which a later call goes on, also after the process
    was killed. It gets its name only once its checksum is right. Several processes may ask for the
    same file at a time: one brings it, and the others wait.

    Raises
    ------
    DownloadError
        no mirror gave the file.
    """
    from filelock import FileLock

    path = folder / file.name
    if file.is_at(path):
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f"{file.name}.part"
    problems = []
    with FileLock(folder / f"{file.name}.lock"):
        if file.is_at(path):
            return path
        for address in [mirror + file.name for mirror in mirrors]:
            for _ in range(TRIES):
                before = _length(part)
                try:
                    _fetch(address, file, part)
                    if file.is_at(part):
                        os.replace(part, path)
                        return path
                    part.unlink()
                    problem = "its checksum is wrong"
                except (OSError, HTTPException) as error:  # URLError is an OSError
                    problem = str(error) or type(error).__name__
                problems.append(f"{address}: {problem}")
                if _length(part) == before:  # nothing came: don't insist
                    break
    raise DownloadError(
        f"{file.name} ({file.size / 1e6:.1f} MB) is not in {folder} and could not be downloaded:\n"
        + "\n".join(dict.fromkeys(problems))
    )


def _fetch(address, file, part):
    """Append to `part` what it lacks; raises OSError if it ends up too short or too long."""
    from tqdm.auto import tqdm

    have = _length(part)
    if have == file.size:
        return
    request = urllib.request.Request(address)
    if 0 < have < file.size:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if response.headers.get("Content-Range") != f"bytes {have}-{file.size - 1}/{file.size}":
            have = 0  # a server without ranges sends all of it
        announced = response.headers.get("Content-Length")
        if announced and int(announced) != file.size - have:
            raise OSError(f"it offers {announced} bytes; expected {file.size - have}")
        bar = tqdm(
            desc=file.name, total=file.size, initial=have, unit="B", unit_scale=True, leave=False
        )
        with bar, part.open("ab" if have else "wb") as target:
            while have <= file.size and (chunk := response.read(CHUNK)):
                target.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))
    if have > file.size:
        part.unlink()
        raise OSError(f"it sent more than {file.size} bytes")
    if have < file.size:
        raise OSError(f"cut off after {have} of {file.size} bytes")


def _length(path):
    return path.stat().st_size if path.exists() else 0
