"""The style sheet of pages about training runs: light and dark, from phone to desktop."""

STYLE = """
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
