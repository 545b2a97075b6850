"""Models named by their place on the hub: the download is replaced, or the hub is one in here."""

import json
import threading
from collections.abc import Iterator
from fnmatch import fnmatch
from hashlib import sha1
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import huggingface_hub.errors
import pytest

from quant import calibrate
from quant.foreign import hub
from quant.foreign.checkpoint import DEFAULT_MODEL, load
from quant.foreign.resolve import FILES
from quant.model.spec import CheckpointError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the library was asked for; it answers with the shipped checkpoint."""
    calls: list[dict[str, Any]] = []

    def download(repo: str, **options: Any) -> str:
        calls.append({"repo": repo} | options)
        return str(DEFAULT_MODEL)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return calls


@pytest.mark.parametrize("name", ["models/bert-tiny-imdb", "nowhere", "owner/name", "x/hub:a/b"])
def test_a_directory_stays_what_it_is_and_asks_nobody(name, asked):
    assert hub.local(Path(name)) == Path(name)
    assert asked == []


@pytest.mark.parametrize(
    ("name", "repo", "revision"),
    [
        ("hub:owner/some.model-1", "owner/some.model-1", None),
        ("hub:owner/name@refs/pr/3", "owner/name", "refs/pr/3"),
    ],
)
def test_a_name_is_fetched_without_anything_that_runs_code(name, repo, revision, asked):
    assert load(hub.local(Path(name))).spec.labels == ("negative", "positive")
    (call,) = asked
    assert (call["repo"], call["revision"]) == (repo, revision)
    assert call["cache_dir"] == Path("build/hub")
    suffixes = {Path(pattern).suffix for pattern in call["allow_patterns"]}
    assert suffixes == {".json", ".model", ".safetensors", ".txt"}


@pytest.mark.parametrize("name", ["hub:", "hub:name", "hub:a/b/c", "hub:a/b@", "hub:a b/c"])
def test_another_form_is_refused(name, asked):
    with pytest.raises(CheckpointError, match=r"names no model of the hub: write hub:owner/name"):
        hub.local(Path(name))
    assert asked == []


@pytest.mark.parametrize("kind", [huggingface_hub.errors.OfflineModeIsEnabled, EOFError])
def test_a_hub_that_cannot_be_reached_is_one_line(kind, monkeypatch, capsys, tmp_path):
    """EOFError: as that of a connection that breaks, of no kind that the library names."""

    def offline(*_: Any, **__: Any) -> str:
        raise kind("Cannot reach it:\nmany more words")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    out = tmp_path / "out"
    assert calibrate.main(["--model", "hub:owner/name", "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        "error: hub:owner/name could not be fetched from the hub (Cannot reach it): check the name "
        "and the network, or give the directory of a copy\n"
    )
    assert not out.exists()


@pytest.mark.parametrize("folder", ["", "0_Transformer/", "encoder/"])
def test_all_files_that_are_read_are_fetched(folder: str, asked: list[dict[str, Any]]) -> None:
    hub.local(Path("hub:owner/name"))
    wanted = asked[0]["allow_patterns"]
    read = [pattern.replace("*", "") for pattern in FILES]
    for name in ("config.json", "x.safetensors", "sentence_bert_config.json", *read):
        assert any(fnmatch(f"{folder}{name}", pattern) for pattern in wanted), name
    alone = ("adapter_config.json", "preprocessor_config.json", "processor_config.json")
    for name in () if folder else alone:
        assert any(fnmatch(name, pattern) for pattern in wanted), name


REVISIONS: dict[str, tuple[str, dict[str, bytes]]] = {
    "main": ("a" * 40, {"config.json": b"{}", "model.safetensors": b"1", "merges.txt": b""}),
    "v2": ("b" * 40, {"config.json": b"{ }", "other.safetensors": b"2", "code.py": b"bad"}),
}


class Hub(BaseHTTPRequestHandler):
    """A hub with one model."""

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on stderr."""

    def do_HEAD(self) -> None:
        self.do_GET(whole=False)

    def do_GET(self, whole: bool = True) -> None:
        parts = self.path.split("?")[0].strip("/").split("/")  # api/models/owner/name/KIND/REVISION
        place = 5 if parts[0] == "api" else 3
        commit, files = next(v for key, v in REVISIONS.items() if parts[place] in (key, v[0]))
        if place == 3:
            body = files["/".join(parts[4:])]
        elif parts[4] == "tree":
            tree = [{"type": "file", "path": n, "oid": "", "size": len(files[n])} for n in files]
            body = json.dumps(tree).encode()
        else:
            named = [{"rfilename": name} for name in files]
            body = json.dumps({"id": "owner/name", "sha": commit, "siblings": named}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", commit)
        self.end_headers()
        if whole:
            self.wfile.write(body)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    constants = huggingface_hub.constants
    monkeypatch.setattr(constants, "ENDPOINT", place)
    url = f"{place}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url)
    monkeypatch.setattr(hub, "FOLDER", tmp_path)
    yield server
    server.shutdown()
    server.server_close()


def test_a_revision_has_its_own_files_alone(served: ThreadingHTTPServer) -> None:
    """Not those of another one that was fetched before; the same where the hub is gone."""

    def files(name: str) -> dict[str, bytes]:
        folder = hub.local(Path(name))
        assert hub.name_of(folder) == "name"
        return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    expected = {"": REVISIONS["main"][1], "@v2": dict(REVISIONS["v2"][1])}
    del expected["@v2"]["code.py"]
    for revision in ("", "@v2", ""):
        assert files(f"hub:owner/name{revision}") == expected[revision]
    served.shutdown()
    served.server_close()
    for revision in ("@v2", ""):
        assert files(f"hub:owner/name{revision}") == expected[revision]
    with pytest.raises(CheckpointError, match="could not be fetched"):
        hub.local(Path("hub:owner/name@v3"))
