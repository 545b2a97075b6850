import json
from pathlib import Path

import pytest

from quant import command


def failing(error: BaseException) -> object:
    def main() -> int:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ValueError("layer.0.q is bad"), 2, "error: layer.0.q is bad\n"),
        (FileNotFoundError(2, "No such file", "x.csv"), 2, "error: x.csv: No such file\n"),
        (KeyboardInterrupt(), 130, "interrupted: nothing was written\n"),
    ],
)
def test_errors_are_one_line_and_a_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(failing(error)) == code
    assert capsys.readouterr().err == line


def test_files_are_whole_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new" / "values.json"
    command.write_json(file, {"é": [1, 2]})
    assert json.loads(file.read_text()) == {"é": [1, 2]}
    with pytest.raises(ValueError, match=r"Out of range float values"):
        command.write_json(file, float("nan"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match=r"No space left"):
        command.write(file, b"other")
    assert json.loads(file.read_text()) == {"é": [1, 2]}
    assert [entry.name for entry in file.parent.iterdir()] == ["values.json"]


def test_no_progress_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(command.progress([1, 2], "working")) == [1, 2]
    assert capsys.readouterr() == ("", "")
