"""The page of training curves: the figure, and a table of the final values."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.html_text import number, percent
from benchmark.logs.equal_progress import EqualRows
from benchmark.logs.groups import Curve
from benchmark.logs.lines import Validation
from benchmark.logs.training_log import TrainingLog
from benchmark.plots.page import page
from benchmark.stability.collapse import MIN_EVALUATIONS, halved
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.run_end import collapsed_at
from benchmark.stability.unequal_settings import UnequalSettings
from tasks.texts import counted, printable

_BODY = """{% for panel, rows in panels %}
<h2>Validation on {{ panel }}</h2>
<p>Success rates with 95% Wilson intervals. A run has collapsed where its smoothed success has
lost half of what it had gained, or half of its best. With three validations or fewer, nobody
knows, unless it shows anyway. Halved: {{ halved }}.</p>
<div class="scroll"><table>
<thead><tr>{% for head in columns %}<th scope="col">{{ head }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr><th scope="row">{{ row.label }}</th>
{% for cell in row.cells %}<td>{{ cell }}</td>{% endfor %}
<td{% if row.fell %} class="bad"{% endif %}>{{ row.collapse }}</td></tr>
{% endfor %}
</tbody></table></div>
{% endfor %}
{% for title, heads, rows in others %}
<h2>{{ title }}</h2>
<div class="scroll"><table>
<thead><tr>{% for head in heads %}<th scope="col">{{ head }}</th>{% endfor %}</tr></thead>
<tbody>
{% for label, cells in rows %}
<tr><th scope="row">{{ label }}</th>{% for cell in cells %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endfor %}
"""

_COLUMNS = (
    "run", "seed", "updates", "init", "best", "last", "95% interval", "valid actions",
    "response tokens", "compute (min)", "collapsed",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    cells: tuple[str, ...]
    collapse: str
    fell: bool


def training_page(
    curves: Sequence[Curve],
    svg: bytes,
    equal: EqualRows | None = None,
    unequal: UnequalSettings | None = None,
) -> str:
    """Render one HTML file; see `page`.

    Args:
        curves: The compared curves; at least one.
        svg: The figure.
        equal: The curves at equal updates and episodes, if available.
        unequal: Settings in which their runs differ, if any.
    """
    others = []
    if equal:
        others.append(("Success at equal updates and episodes", ["", *equal.heads], equal.rows))
    if unequal:
        values = {name: (value,) for name, value in unequal.values.items()}
        others.append((unequal.head.capitalize(), ["setting", "values"], values))
    runs = [run for curve in curves for run in curve.runs]
    tasks = ", ".join(dict.fromkeys(run.start.task for run in runs))
    inits = ", ".join(dict.fromkeys(printable(run.start.init.name) for run in runs))
    several = len({run.start.task for run in runs}) > 1
    panels = dict.fromkeys(
        (panel, run.start.task if several else None) for run in runs for panel in run.panels
    )
    names = ", ".join(printable(curve.label) for curve in curves)
    return page(
        _BODY,
        svg,
        title=f"Training on {tasks} from {inits}",
        summary=f"{counted(len(runs), 'run')} in {counted(len(curves), 'curve')}: {names}.",
        description=f"Training curves of {names}; the final numbers are in the tables.",
        panels=[
            (f"{task}/{panel}" if task else panel, _rows(curves, panel, task))
            for panel, task in panels
        ],
        columns=_COLUMNS,
        others=[(title, heads, rows.items()) for title, heads, rows in others],
        halved=DEFINITIONS["halved"].text,
    )


def _rows(curves: Sequence[Curve], panel: str, task: str | None) -> list[_Row]:
    return [
        _row(curve.label, run, validations)
        for curve in curves
        for run in curve.runs
        if task in (None, run.start.task) and (validations := run.of_panel(panel))
    ]


def _row(label: str, run: TrainingLog, validations: Sequence[Validation]) -> _Row:
    first, last = validations[0], validations[-1]
    best = max(line.success for line in validations)
    tokens = [count for count in run.series("tokens/response") if count is not None]
    complete = len(tokens) == len(run.updates)
    update = collapsed_at(run, last.panel)
    late = update is None and halved([line.success for line in validations])
    held = "no" if len(validations) >= MIN_EVALUATIONS else "unknown"
    seconds = max([last.seconds_total, *(line.seconds_total for line in run.updates)])
    return _Row(
        label=printable(label),
        cells=(
            str(run.start.seed),
            str(run.updates[-1].update if run.updates else 0),
            percent(first.success) if first.update == 0 else number(None),
            percent(best),
            percent(last.success),
            f"{percent(last.wilson_low)} to {percent(last.wilson_high)}",
            percent(last.action_ok),
            number(sum(tokens) if complete else None, 0),
            number(seconds / 60, 1),
        ),
        collapse=f"update {update}" if update is not None else "halved" if late else held,
        fell=late or update is not None,
    )
