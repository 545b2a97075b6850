"""Models named by their place on the hub, with the download replaced: tests use no network."""

from pathlib import Path
from typing import Any

import huggingface_hub
import pytest

from quant import calibrate
from quant.foreign import hub
from quant.foreign.checkpoint import DEFAULT_MODEL, load
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
    assert call["local_dir"] == Path("build/hub") / repo
    suffixes = {Path(pattern).suffix for pattern in call["allow_patterns"]}
    assert suffixes == {".json", ".model", ".safetensors", ".txt"}


@pytest.mark.parametrize("name", ["hub:", "hub:name", "hub:a/b/c", "hub:a/b@", "hub:a b/c"])
def test_another_form_is_refused(name, asked):
    with pytest.raises(CheckpointError, match=r"names no model of the hub: write hub:owner/name"):
        hub.local(Path(name))
    assert asked == []


def test_a_hub_that_cannot_be_reached_is_one_line(monkeypatch, capsys, tmp_path):
    def offline(*_: Any, **__: Any) -> str:
        raise huggingface_hub.errors.OfflineModeIsEnabled("Cannot reach it:\nmany more words")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    out = tmp_path / "out"
    assert calibrate.main(["--model", "hub:owner/name", "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        "error: hub:owner/name could not be fetched from the hub (Cannot reach it): check the name "
        "and the network, or give the directory of a copy\n"
    )
    assert not out.exists()
