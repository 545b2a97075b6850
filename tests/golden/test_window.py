import pytest

from golden.model import Window
from golden.window import in_window


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        (None, ["111", "111", "111"]),
        (Window(None, 0), ["100", "110", "111"]),
        (Window(0, None), ["111", "011", "001"]),
        (Window(0, 0), ["100", "010", "001"]),
        (Window(1, 0), ["100", "110", "011"]),
        (Window(0, 1), ["110", "011", "001"]),
        (Window(2, 8191), ["111", "111", "111"]),
    ],
)
def test_the_keys_that_a_query_sees(window: Window | None, rows: list[str]) -> None:
    """A row a query."""
    assert in_window(window, 3).tolist() == [[x == "1" for x in row] for row in rows]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (None, None, "before and after are None; allowed is one of them, or no window"),
        (-1, 0, r"before is -1; allowed 0\.\.8191"),
        (0, 8192, r"after is 8192; allowed 0\.\.8191"),
        (True, 0, r"before is True; allowed 0\.\.8191"),
        (1.5, 0, r"before is 1\.5; allowed integers 0\.\.8191"),
    ],
)
def test_windows_that_are_refused(before: int, after: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Window(before, after)
