"""The style of the project's HTML pages, inline in each: light and dark, no file from elsewhere."""

from pathlib import Path

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
