"""Pages about training runs, with a figure and tables; light and dark, for phone and desktop.

A page loads no resources and runs no scripts. Its names come from other people's logs: all text is
escaped, and invisible characters are written as code points.
"""

import base64
import hashlib
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from benchmark.html_text import finalized

_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ title }}</title>
<link rel="icon" href="data:,">
<style>{{ style }}</style>
</head>
<body>
<main>
<h1>{{ title }}</h1>
<p>{{ summary }}</p>
<img src="{{ image }}" alt="{{ description }}">
"""
_END = """</main>
</body>
</html>
"""
_STYLE = """
:root {
  color-scheme: light dark;
  --page: #fff; --ink: #1c2128; --soft: #59626e; --rule: #d9dde3; --bad: #a8261d;
}
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --ink: #e3e6ea; --soft: #9ea8b4; --rule: #363d47; --bad: #f59b92; }
}
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif;
}
main { max-width: 1240px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 36px 0 8px; }
p { margin: 0 0 16px; color: var(--soft); font-size: 14px; max-width: 90ch; }
img { display: block; width: 100%; height: auto; background: #fff; border-radius: 6px; }
.scroll { overflow-x: auto; }
table {
  border-collapse: collapse; min-width: 100%; font-size: 14px; font-variant-numeric: tabular-nums;
}
th, td {
  text-align: right; padding: 5px 0 5px 18px; border-bottom: 1px solid var(--rule);
  font-weight: 400; white-space: nowrap;
}
th:first-child { text-align: left; padding-left: 0; }
thead th { color: var(--soft); font-size: 13px; vertical-align: bottom; }
tbody th { font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
"""


def page(body: str, svg: bytes, more_style: str = "", **values: Any) -> str:
    """Render one HTML file; its text depends only on the arguments.

    Args:
        body: Template of the part below the figure.
        svg: The figure.
        more_style: CSS that the page adds to the style sheet.
        values: Variables of the templates: `title`, `summary`, `description` (of the figure), and
            those of the body.
    """
    style = _STYLE + more_style
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, finalize=finalized
    )
    return environment.from_string(_HEAD + body + _END).render(
        image=Markup(f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"),  # noqa: S704
        style=Markup(style),  # noqa: S704 - a constant
        policy=f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:",
        **values,
    )
