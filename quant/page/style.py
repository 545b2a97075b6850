"""The style of the project's HTML pages, inline in each: light and dark, no file from elsewhere."""

import re
from pathlib import Path

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")

LIGHT, DARK = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
"""The colours as `--name: value;`, those by day and what is another by night."""
