import json
from collections.abc import Callable
from pathlib import Path

from cli import files
from cli.errors import UserError

import pytest

from golden import store
from tb import vectors


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_file_is_whole_or_as_before(tmp_path, monkeypatch):
    file = tmp_path / "new" / "values.json"
    files.write_json(file, {"é": [1, 2]})
    with pytest.raises(ValueError, match=r"Out of range float values"):
        files.write_json(file, float("nan"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match=r"No space left"):
        files.write(file, b"other")
    assert json.loads(file.read_text(encoding="utf-8")) == {"é": [1, 2]}
    assert names(file.parent) == ["values.json"]


def test_an_unchanged_file_is_not_written(tmp_path):
    file = tmp_path / "unit.v"
    written = [files.write_if_changed(file, text) for text in ("a\n", "a\n", "b\n")]
    assert (written, file.read_text()) == ([True, False, True], "b\n")


def test_what_stands_where_a_file_or_folder_goes(tmp_path):
    """A folder is replaced by a folder, a link stays, and a failed block leaves what was there."""
    for name in ("a", "b"):
        with files.replacing(tmp_path / "folder") as new:
            new.mkdir()
            (new / name).touch()
    link = tmp_path / "link"
    link.symlink_to("real")
    files.write(link, "new")
    assert link.is_symlink()

    def fail(make: Callable[[Path], None]) -> None:
        with files.replacing(link) as new:
            make(new)
            raise RuntimeError

    for make in (Path.mkdir, Path.touch):
        with pytest.raises(RuntimeError):
            fail(make)
    with pytest.raises(IsADirectoryError, match="folder"):
        files.write(tmp_path / "folder", "text")
    assert names(tmp_path / "folder") == ["b"]
    assert names(tmp_path) == ["folder", "link", "real"]
    assert (tmp_path / "real").read_text() == "new"


READERS: dict[str, Callable[[Path], object]] = {
    store.DESCRIPTION: lambda file: store.info_of(file.parent),
    vectors.INDEX: lambda file: list(vectors.read(file.parent, "softmax")),
}


@pytest.mark.parametrize("name", READERS)
def test_brackets_without_end_are_one_line(name: str, tmp_path: Path) -> None:
    """They are more than Python's parser goes into."""
    (tmp_path / name).write_text('{"ids": ' + "[" * 100_000)
    with pytest.raises(UserError, match=str(tmp_path)) as caught:
        READERS[name](tmp_path / name)
    assert "\n" not in str(caught.value)
