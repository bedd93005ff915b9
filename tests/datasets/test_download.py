"""The download path against a real HTTP server on this machine: good, wrong, broken, full."""

import errno
import hashlib
import http.server
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fairpca.datasets import DataUnavailableError, cache, fetch_bank_marketing, people
from fairpca.datasets.cache import ENVIRONMENT, Remote, download, obtain

CONTENT = bytes(range(256)) * 4096  # 1 MiB
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves one file; the server object says how badly."""

    def do_GET(self):
        server = self.server
        server.requests.append(dict(self.headers))
        if self.path != "/file":
            self.send_error(404)
            return
        start = 0
        wanted = self.headers.get("Range")
        same = self.headers.get("If-Range") in (None, server.tag)
        if wanted and same and server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_error(416)
                return
            self.send_response(206)
            end = len(server.content)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
        else:
            self.send_response(200)
        body = server.content[start:]
        if server.tag:
            self.send_header("ETag", server.tag)
        if server.announce:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.breaks > 0:
            server.breaks -= 1
            body = body[: len(body) // 3]
            server.content, server.tag = server.next_version or (server.content, server.tag)
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A client that hangs up, as on a full disk, is no news."""


@pytest.fixture
def server():
    found = Server(("127.0.0.1", 0), Handler)
    found.content, found.tag, found.ranges, found.announce = CONTENT, '"v1"', True, True
    found.breaks, found.requests, found.next_version = 0, [], None
    found.url = f"http://127.0.0.1:{found.server_port}/file"
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(cache, "_PAUSE", 0.001)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def untouched(tmp_path):
    """A data directory that must not be written to, not even for a moment."""
    home = tmp_path / "shared"
    home.mkdir()
    # A time in the past: whatever creates or deletes a file there sets it to the present.
    os.utime(home, (1e9, 1e9))
    yield home
    assert names(home) == []
    assert home.stat().st_mtime == 1e9


def test_a_good_file_arrives(server, tmp_path):
    path = download(Remote("data.bin", server.url, SHA256), tmp_path)
    assert path.read_bytes() == CONTENT
    assert names(tmp_path) == ["data.bin"]
    assert path.stat().st_mode & 0o444 == 0o444


def test_a_file_that_is_there_is_not_asked_for(server, tmp_path):
    (tmp_path / "data.bin").write_bytes(b"mine")
    path = obtain("f", accepted=("data.bin",), remotes=(_remote(server),), data_home=tmp_path)
    assert path.read_bytes() == b"mine"
    assert server.requests == []


def test_a_wrong_checksum_leaves_no_trace(server, untouched):
    server.content = CONTENT[:-1] + b"x"
    with pytest.raises(ValueError, match=r"(?i)hash"):
        download(Remote("data.bin", server.url, SHA256), untouched)


def test_a_wrong_structure_leaves_no_trace(server, untouched):
    def check(path):
        raise ValueError("not a table")

    with pytest.raises(ValueError, match="not a table"):
        download(Remote("data.bin", server.url, check=check), untouched)


def test_a_connection_that_stays_broken_leaves_no_trace(server, untouched):
    server.breaks = 100
    with pytest.raises(OSError):
        download(Remote("data.bin", server.url, SHA256), untouched)


def test_a_server_that_does_not_answer_leaves_no_trace(untouched, monkeypatch):
    monkeypatch.setattr(cache, "_ATTEMPTS", 1)
    # Port 9 of this machine: nobody listens.
    nobody = Remote("data.bin", "http://127.0.0.1:9/file")
    with pytest.raises(OSError):
        download(nobody, untouched)
    with pytest.raises(OSError):
        download(nobody, untouched / "new")


def test_structure_is_checked_before_the_file_has_its_name(server, tmp_path):
    seen = []

    def check(path):
        seen.append((path.read_bytes() == CONTENT, (tmp_path / "data.bin").exists()))

    download(Remote("data.bin", server.url, check=check), tmp_path)
    assert seen == [(True, False)]


def test_a_broken_connection_is_continued(server, tmp_path):
    server.breaks = 2
    path = download(Remote("data.bin", server.url, SHA256), tmp_path)
    assert path.read_bytes() == CONTENT
    starts = [request.get("Range", "bytes=0-") for request in server.requests]
    first, second, third = (int(s.removeprefix("bytes=").removesuffix("-")) for s in starts)
    # All that arrived is kept, up to the block in which the connection broke.
    assert first == 0
    assert len(CONTENT) // 3 - 2**16 <= second <= len(CONTENT) // 3
    assert second < third < len(CONTENT)
    assert names(tmp_path) == ["data.bin"]


def test_two_versions_are_never_glued_together(server, tmp_path):
    server.breaks, server.next_version = 1, (CONTENT[::-1], '"v2"')
    assert download(Remote("data.bin", server.url), tmp_path).read_bytes() == CONTENT[::-1]
    assert "If-Range" in server.requests[1]


def test_without_a_validator_an_unpinned_file_starts_again(server, tmp_path):
    server.breaks, server.tag = 1, 'W/"weak"'
    assert download(Remote("data.bin", server.url), tmp_path).read_bytes() == CONTENT
    assert [request.get("Range") for request in server.requests] == [None, None]


def test_a_server_without_ranges_is_asked_from_the_start(server, tmp_path):
    server.breaks, server.ranges = 1, False
    path = download(Remote("data.bin", server.url, SHA256), tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_short_file_of_unannounced_length_fails_its_checksum(server, tmp_path):
    server.announce, server.breaks = False, 1
    with pytest.raises(ValueError, match=r"(?i)hash"):
        download(Remote("data.bin", server.url, SHA256), tmp_path)
    assert names(tmp_path) == []


def test_two_processes_at_once(server, tmp_path):
    code = f"""
        from pathlib import Path
        from fairpca.datasets.cache import Remote, download
        path = download(Remote("data.bin", {server.url!r}, {SHA256!r}), Path({str(tmp_path)!r}))
        assert len(path.read_bytes()) == {len(CONTENT)}
    """
    runs = [subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)]) for _ in range(2)]
    assert [run.wait(60) for run in runs] == [0, 0]
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert names(tmp_path) == ["data.bin"]


def test_an_interrupted_process_leaves_no_trace(server, untouched, tmp_path):
    # Killed when everything has arrived and nothing is verified yet.
    code = f"""
        import os
        from pathlib import Path
        from fairpca.datasets.cache import Remote, download
        remote = Remote("data.bin", {server.url!r}, check=lambda path: os._exit(9))
        download(remote, Path({str(untouched)!r}))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    assert run.returncode == 9


# A full disk: a real small file system where this user may mount one, otherwise a limit on the
# size of files, which fails the same write with another number.
FILL = """
    import errno, sys
    from pathlib import Path
    from fairpca.datasets import cache
    {limit}
    home = Path({home!r})
    try:
        cache.obtain("f", accepted=("data.bin",), data_home=home,
                     remotes=(cache.Remote("data.bin", {url!r}, {sha256!r}),))
    except cache.DataUnavailableError:
        sys.exit("a full disk was reported as missing data")
    except OSError as error:
        assert error.errno in (errno.ENOSPC, errno.EFBIG), error
        assert "no room for data.bin" in str(error), error
        assert sorted(p.name for p in home.iterdir()) == [], list(home.iterdir())
        print(errno.errorcode[error.errno])
    else:
        sys.exit("a full disk was not noticed")
"""
RLIMIT = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))"


def _small_disk(folder, script):
    """Return the command that runs `script` with a 256 KiB file system on `folder`."""
    mount = f"mount -t tmpfs -o size=256k tmpfs {folder}"
    inside = f"{mount} && exec {sys.executable} {script}"
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", inside]


@pytest.mark.parametrize("announced", [True, False])
def test_a_full_disk(server, tmp_path, announced):
    server.announce = announced
    home = tmp_path / "home"
    home.mkdir()
    script = tmp_path / "fill.py"
    common = {"home": str(home), "url": server.url, "sha256": SHA256}
    script.write_text(textwrap.dedent(FILL.format(limit="", **common)))
    can_mount = (
        shutil.which("unshare")
        and subprocess.run(
            _small_disk(home, "-c pass"), capture_output=True, check=False
        ).returncode
        == 0
    )
    if can_mount:
        run = subprocess.run(
            _small_disk(home, script), capture_output=True, text=True, check=False
        )
        assert (run.returncode, run.stdout.strip()) == (0, "ENOSPC"), run.stderr
    script.write_text(textwrap.dedent(FILL.format(limit=RLIMIT, **common)))
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout.strip()) == (0, "EFBIG"), run.stderr


def test_the_second_address_is_tried(server, tmp_path):
    gone = Remote("data.bin", server.url.replace("/file", "/gone"), SHA256)
    path = obtain("f", accepted=("data.bin",), remotes=(gone, _remote(server)), data_home=tmp_path)
    assert path.read_bytes() == CONTENT


def test_the_message_names_file_addresses_reasons_and_the_remedy(server, tmp_path):
    gone = Remote("data.bin", server.url.replace("/file", "/gone"), SHA256)
    with pytest.raises(DataUnavailableError) as caught:
        obtain("fetch_it", accepted=("data.bin", "b.zip"), remotes=(gone,), data_home=tmp_path)
    text = str(caught.value)
    for part in ("fetch_it", "data.bin", "b.zip", str(tmp_path), gone.url, "404", ENVIRONMENT):
        assert part in text


def test_without_network_every_loader_says_what_to_do(tmp_path, monkeypatch):
    from fairpca import datasets

    # Port 9 of this machine: nobody listens, as without a network.
    monkeypatch.setattr(cache, "_ATTEMPTS", 1)
    for variable in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
        monkeypatch.setenv(variable.upper(), "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    loaders = [getattr(datasets, name) for name in datasets.__all__ if name.startswith("fetch_")]
    assert len(loaders) == 6
    calls = [(loader, {}) for loader in loaders]
    calls.append((datasets.fetch_compas, {"variant": "splits"}))
    for loader, kwargs in calls:
        with pytest.raises(DataUnavailableError) as caught:
            loader(**kwargs)
        text = str(caught.value)
        assert loader.__name__ in text
        assert "https://" in text
        assert "by hand" in text
        assert str(tmp_path) in text
        with pytest.raises(DataUnavailableError, match="Nothing was downloaded"):
            loader(download_if_missing=False, **kwargs)


def test_a_read_only_directory_is_explained(server, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path))

    # Permissions do not stop a test that runs as root, so the refusal is made by hand.
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(DataUnavailableError, match="Permission denied"):
        obtain("f", accepted=("data.bin",), remotes=(_remote(server),), data_home=tmp_path)


def test_a_loader_downloads_and_reads(server, tmp_path, monkeypatch):
    from data_dir import data_path

    server.content = data_path("bank.csv").read_bytes()
    here = replace(people._BANK.remotes[0], url=server.url)
    monkeypatch.setattr(people, "_BANK", replace(people._BANK, remotes=(here,)))
    server.breaks = 1
    bunch = fetch_bank_marketing(data_home=tmp_path)
    assert bunch.data.shape == (45211, 15)
    assert names(tmp_path) == ["bank.csv"]


def test_missing_pooch_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[data\]"'):
        fetch_bank_marketing(data_home=tmp_path)
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    with pytest.raises(ImportError, match=r'pip install "\.\[data\]"'):
        fetch_bank_marketing()


def test_default_directory_is_the_users_cache(monkeypatch, tmp_path):
    import pooch

    from fairpca.datasets.cache import resolve_home

    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert resolve_home() == Path(pooch.os_cache("fairpca"))
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    assert resolve_home() == tmp_path
    assert resolve_home(tmp_path / "x") == tmp_path / "x"
    assert os.environ[ENVIRONMENT] == str(tmp_path)


def _remote(server):
    return Remote("data.bin", server.url, SHA256)
