"""Models named by their place on the hub: the download is replaced."""

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.errors
import pytest

from quant import calibrate, which
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
    assert which.local(Path(name)) == Path(name)
    assert asked == []


@pytest.mark.parametrize(
    ("name", "repo", "revision"),
    [
        ("hub:owner/some.model-1", "owner/some.model-1", None),
        ("hub:owner/name@refs/pr/3", "owner/name", "refs/pr/3"),
    ],
)
def test_a_name_is_fetched_without_anything_that_runs_code(name, repo, revision, asked):
    assert load(which.local(Path(name))).spec.labels == ("negative", "positive")
    (call,) = asked
    assert (call["repo"], call["revision"]) == (repo, revision)
    assert call["cache_dir"] == Path("build/hub")
    suffixes = {Path(pattern).suffix for pattern in call["allow_patterns"]}
    assert suffixes == {".json", ".model", ".safetensors", ".txt"}


@pytest.mark.parametrize("name", ["hub:", "hub:a/b/c", "hub:a b/c"])
def test_another_form_is_refused(name):
    with pytest.raises(CheckpointError, match=r"could not be fetched .*: check hub:owner/name@rev"):
        which.local(Path(name))


@pytest.mark.parametrize("kind", [huggingface_hub.errors.OfflineModeIsEnabled, EOFError])
def test_a_hub_that_cannot_be_reached_is_one_line(kind, monkeypatch, capsys, tmp_path):
    """EOFError: as that of a connection that breaks, of no kind that the library names."""

    def offline(*_: Any, **__: Any) -> str:
        raise kind("Cannot reach it:\nmany more words")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    out = tmp_path / "out"
    assert calibrate.main(["--model", "hub:owner/name", "--out", str(out)]) == 2
    assert capsys.readouterr().err == (
        "error: hub:owner/name could not be fetched from the hub (Cannot reach it: many more words)"
        ": check hub:owner/name@revision and the network, or give the directory of a copy\n"
    )
    assert not out.exists()


@pytest.mark.parametrize("folder", ["", "0_Transformer/", "encoder/"])
def test_all_files_that_are_read_are_fetched(folder: str, asked: list[dict[str, Any]]) -> None:
    which.local(Path("hub:owner/name"))
    wanted = asked[0]["allow_patterns"]
    read = [pattern.replace("*", "") for pattern in FILES]
    for name in ("config.json", "x.safetensors", "sentence_bert_config.json", *read):
        assert any(fnmatch(f"{folder}{name}", pattern) for pattern in wanted), name
    alone = ("adapter_config.json", "preprocessor_config.json", "processor_config.json")
    for name in () if folder else alone:
        assert any(fnmatch(name, pattern) for pattern in wanted), name
