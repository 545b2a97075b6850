"""Pages of one file that needs nothing else, from templates that escape all that they show."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from cli.options import version

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

FOLDER = Path(__file__).parent
STYLE = (FOLDER / "page.css").read_text(encoding="utf-8")
"""The style of all pages, inline in each: light and dark, no file from elsewhere."""
COLOURS = STYLE.partition(":root {")[2].partition("}")[0]  # `--name: value;`


def render(template: Path, **shown: Any) -> str:
    """The page of a template that extends base.html, with its variables."""
    environment = Environment(
        loader=FileSystemLoader([template.parent, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
    )
    environment.filters["number"] = lambda value: f"{value:,}"
    page: str = environment.get_template(template.name).render(
        style=Markup(STYLE), version=version(), made=time.strftime("%Y-%m-%d %H:%M"), **shown
    )
    # Half a character of a text that was not UTF-8 cannot be written.
    return page.encode(errors="replace").decode()
