"""Downloads, from a server on this machine: cut, wrong, too long, resumed, several at once."""

import hashlib
import random
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from normbook.data import download as module
from normbook.data.download import DownloadError, RemoteFile, download

CONTENT = random.Random(0).randbytes(300_000)
FILE = RemoteFile("some.gz", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@dataclass
class Server:
    """A small web server of one file, and how it behaves."""

    content: bytes = CONTENT
    ranges: bool = True  # whether it can go on from the middle
    cuts: list = field(default_factory=list)  # bytes after which it hangs up, request by request
    silent_length: bool = False  # whether it doesn't tell how much it will send
    elsewhere: str = ""  # the address that it sends on to
    pause: float = 0.0  # seconds before each tenth of the file
    asked: list = field(default_factory=list)  # the Range of every request, or None
    sent: int = 0
    address: str = ""


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked = self.headers["Range"]
            state.asked.append(asked)
            start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
            content = state.content
            if state.elsewhere:
                self.send_response(302)
                self.send_header("Location", state.elsewhere)
                return self.end_headers()
            if self.path != f"/{FILE.name}":
                return self.send_error(404)
            if start and state.ranges:
                self.send_response(206)
                self.send_header(
                    "Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}"
                )
            else:
                start = 0
                self.send_response(200)
            if not state.silent_length:
                self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            end = start + state.cuts.pop(0) if state.cuts else len(content)
            for position in range(start, min(end, len(content)), 30_000):
                time.sleep(state.pause)
                self.wfile.write(content[position : min(position + 30_000, end)])
                state.sent += 1

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.handle_error = lambda *_: None  # clients that hang up
        threading.Thread(target=running.serve_forever, args=[0.01], daemon=True).start()
        state.address = f"http://127.0.0.1:{running.server_port}/"
        yield state
        running.shutdown()


@pytest.fixture
def offline():
    """An address where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{unused.getsockname()[1]}/"


def left_in(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_downloads_once(server, tmp_path):
    folder = tmp_path / "new" / "folder"
    path = download(FILE, folder, [server.address])
    assert path.read_bytes() == CONTENT
    assert left_in(folder) == [FILE.name]
    assert download(FILE, folder, [server.address]) == path
    assert server.asked == [None]


def test_replaces_a_damaged_file(server, tmp_path):
    (tmp_path / FILE.name).write_bytes(b"\0" + CONTENT[1:])
    assert download(FILE, tmp_path, [server.address]).read_bytes() == CONTENT


def test_resumes_after_a_cut(server, tmp_path):
    server.cuts = [100_000, 50_000]
    assert download(FILE, tmp_path, [server.address]).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=150000-"]


def test_begins_again_where_the_server_knows_no_ranges(server, tmp_path):
    server.cuts, server.ranges = [100_000], False
    assert download(FILE, tmp_path, [server.address]).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]


def test_a_later_call_goes_on(server, tmp_path):
    server.cuts = [100_000, 0]  # the second time nothing comes
    with pytest.raises(DownloadError, match="cut off after 100000 of 300000 bytes"):
        download(FILE, tmp_path, [server.address])
    assert left_in(tmp_path) == [f"{FILE.name}.part"]
    download(FILE, tmp_path, [server.address])
    assert server.asked[2:] == ["bytes=100000-"]
    assert left_in(tmp_path) == [FILE.name]


def test_a_wrong_beginning_is_dropped(server, tmp_path):
    (tmp_path / f"{FILE.name}.part").write_bytes(b"\0" * 1000)
    assert download(FILE, tmp_path, [server.address]).read_bytes() == CONTENT
    assert server.asked == ["bytes=1000-", None]


@pytest.mark.parametrize("length", [FILE.size, FILE.size + 5])
def test_a_wrong_whole_is_dropped(server, tmp_path, length):
    (tmp_path / f"{FILE.name}.part").write_bytes(b"\0" * length)
    assert download(FILE, tmp_path, [server.address]).read_bytes() == CONTENT


def test_wrong_checksum(server, tmp_path):
    server.content = CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])
    with pytest.raises(DownloadError, match=f"{FILE.name}: its checksum is wrong"):
        download(FILE, tmp_path, [server.address])
    assert left_in(tmp_path) == []


def test_too_long_is_refused_before_it_is_read(server, tmp_path):
    server.content = CONTENT * 2
    with pytest.raises(DownloadError, match="it offers 600000 bytes; expected 300000"):
        download(FILE, tmp_path, [server.address])
    assert left_in(tmp_path) == []


def test_too_long_without_a_word_is_cut(server, tmp_path):
    server.content, server.silent_length = CONTENT * 20, True
    with pytest.raises(DownloadError, match="it sent more than 300000 bytes"):
        download(FILE, tmp_path, [server.address])
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("scheme", ["file", "data", "jar"])
def test_sent_on_to_what_is_no_web_page(server, tmp_path, scheme):
    """Not even to the right content: a server must not choose a file of this machine."""
    right = tmp_path / "right"
    right.write_bytes(CONTENT)
    server.elsewhere = right.as_uri().replace("file", scheme, 1)
    with pytest.raises(DownloadError, match=r"(?i)redirection to url .* is not allowed"):
        download(FILE, tmp_path / "folder", [server.address])
    assert left_in(tmp_path / "folder") == []


@pytest.mark.parametrize(
    "name", ["../a", "/a", "a/b", "..", ".", "", "a\\b", "C:a", "~", "a\n", "a?b"]
)
def test_a_name_leads_nowhere_else(name):
    with pytest.raises(ValueError, match=r"name is '.*'; expected that of a file"):
        RemoteFile(name, 1, "")


def test_too_short(server, tmp_path):
    server.content, server.silent_length = CONTENT[:1000], True
    with pytest.raises(DownloadError, match="cut off after 1000 of 300000 bytes"):
        download(FILE, tmp_path, [server.address])
    assert left_in(tmp_path) == [f"{FILE.name}.part"]


def test_the_second_mirror_helps(server, offline, tmp_path):
    mirrors = [offline, server.address + "nowhere/", server.address]
    assert download(FILE, tmp_path, mirrors).read_bytes() == CONTENT


def test_offline(offline, tmp_path):
    with pytest.raises(DownloadError) as raised:
        download(FILE, tmp_path, [offline])
    message = str(raised.value)
    assert f"some.gz (0.3 MB) is not in {tmp_path}" in message
    assert f"{offline}some.gz: " in message


def test_silence_ends(server, tmp_path, monkeypatch):
    server.pause = 5
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    with pytest.raises(DownloadError, match="timed out"):
        download(FILE, tmp_path, [server.address])
    assert len(server.asked) == 1  # no second try, since nothing came


def start(server, folder):
    script = f"""
from pathlib import Path
from normbook.data.download import RemoteFile, download
print(download({FILE!r}, Path({str(folder)!r}), [{server.address!r}]))
"""
    return subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_several_processes_at_once(server, tmp_path):
    server.pause = 0.05
    processes = [start(server, tmp_path) for _ in range(3)]
    outputs = [process.communicate() for process in processes]
    assert [out.strip() for out, _ in outputs] == [str(tmp_path / FILE.name)] * 3, outputs
    assert server.asked == [None]
    assert (tmp_path / FILE.name).read_bytes() == CONTENT


def test_goes_on_after_a_kill(server, tmp_path):
    server.pause = 0.05
    process = start(server, tmp_path)
    part = tmp_path / f"{FILE.name}.part"
    while not (part.exists() and part.stat().st_size > 0):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert left_in(tmp_path) == [part.name]
    download(FILE, tmp_path, [server.address])
    assert server.asked[1].startswith("bytes=")
    assert (tmp_path / FILE.name).read_bytes() == CONTENT
