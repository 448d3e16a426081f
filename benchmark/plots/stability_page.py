"""The stability page: figure, table, definitions of all metrics, and notes on the logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.plots.page import page
from benchmark.plots.stability import stability_svg
from benchmark.stability.comparison import RecipeComparison
from benchmark.stability.definitions import DEFINITIONS, of_scope
from benchmark.stability.recipes import Compared, Comparisons, LoggedRun
from benchmark.stability.seeds import ReachedSummary, RecipeStability, SeedSummary
from benchmark.stability.table import (
    COLUMNS,
    FEW_SEEDS,
    UNKNOWN,
    comparison_cells,
    conditions,
    equal_rows_of,
    recipe_cells,
    run_cells,
    run_label,
    shown,
    shown_collapse,
    shown_outcome,
    unequal_of,
)
from benchmark.stats.formatting import range_text
from tasks.texts import counted

_MORE_STYLE = """
td.text, th.text { text-align: left; white-space: normal; min-width: 34ch; }
tr.seed th { font-weight: 400; padding-left: 16px; }
details { margin: 0 0 12px; font-size: 14px; }
summary { cursor: pointer; }
li { overflow-wrap: anywhere; }
"""

_BODY = """{% macro table(heads, rows, text=0) %}
<div class="scroll"><table>
<thead><tr>{% for head in heads %}
<th scope="col"{% if loop.index0 and loop.index0 <= text %} class="text"{% endif %}>{{ head }}</th>
{% endfor %}</tr></thead>
<tbody>
{% for row in rows %}
<tr{% if row.seed %} class="seed"{% endif %}><th scope="row">{{ row.label }}</th>
{% for cell in row.cells %}
<td{% if loop.index <= text %} class="text"{% endif %}>{{ cell }}</td>
{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endmacro %}
<h2>Recipes</h2>
<p>Medians over seeds, and every seed below its recipe; {{ unknown }} where a log cannot say.
Halved: {{ halved }}.</p>
{{ table(short_heads, short) }}
{% for one in comparisons %}
<h2>Comparison on {{ one.tasks|join(', ') }}</h2>
<p>{{ iqm }}. {{ improvement }}: how likely a seed of {{ one.labels[0] }} is better than one of the
recipe. {{ few_seeds }}</p>
{{ table(comparison_heads, one.rows) }}
{% if one.equal %}
<p>Mean success after equal updates and equal episodes.</p>
{{ table(one.equal_heads, one.equal) }}
{% endif %}
{% endfor %}
{% if left_out %}<p>Not compared: {{ left_out }}.</p>{% endif %}
{% for task, head, values in unequal %}
<h2>{{ task }}: {{ head }}</h2>
<p>Settings that do not have one value in all runs.</p>
{{ table(["setting", "values"], values, 1) }}
{% endfor %}
<h2>All numbers</h2>
<p>Median over seeds with its 95% bootstrap interval where the seeds can show one; in brackets the
worst seed.</p>
{{ table(number_heads, numbers, 1) }}
<h2>Events</h2>
<p>Seeds with the event, out of those whose logs can show it, with the exact 95% interval.</p>
{{ table(number_heads, events, 1) }}
<h2>Compute to reach a success rate</h2>
<p>Medians over seeds; a seed that never reached it took longer than all that did.</p>
{{ table(reached_heads, reached) }}
<h2>Logs</h2>
{% for log in logs %}
<details><summary>{{ log.path }}: {{ log.source }}</summary>
{% for title, lines in log.parts %}
{% if lines %}
<p>{{ title }}</p>
<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>
{% endif %}
{% endfor %}
</details>
{% endfor %}
<h2>Sources of the definitions</h2>
{{ table(["number", "unit", "source"], sources, 2) }}
"""


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    cells: Sequence[str]
    seed: bool = False


@dataclass(frozen=True, slots=True)
class _Log:
    path: str
    source: str
    parts: Sequence[tuple[str, Sequence[str]]]


def stability_page(rows: Sequence[Compared], comparisons: Comparisons) -> str:
    """Render one HTML file; see `page`.

    Args:
        rows: The compared recipes; at least one.
        comparisons: Comparisons of recipes.
    """
    runs = sum(len(row.runs) for row in rows)
    labels = [row.label for row in rows]
    return page(
        _BODY,
        stability_svg(rows, comparisons.each),
        _MORE_STYLE,
        title="Stability of training runs",
        description="Success, survival and warning signs; the numbers are in the tables.",
        summary=f"{counted(runs, 'run')} of {counted(len(rows), 'recipe')}: {', '.join(labels)}.",
        unknown=UNKNOWN,
        halved=DEFINITIONS["halved"].text,
        short_heads=["recipe", "seeds", *(DEFINITIONS[name].name for name in COLUMNS)],
        short=_short(rows),
        comparisons=[_comparison(one, rows) for one in comparisons.all],
        unequal=[
            (task, found.head, [_Row(name, [values]) for name, values in found.values.items()])
            for task, found in unequal_of(rows).items()
        ],
        comparison_heads=["recipe", "seeds", "IQM", "95% interval", "P(first)", "95% interval"],
        iqm=_sentence("iqm"),
        improvement=DEFINITIONS["probability_of_improvement"].name.capitalize(),
        few_seeds=FEW_SEEDS,
        left_out="; ".join(f"{label} {why}" for label, why in comparisons.left_out),
        number_heads=["", "meaning", *labels],
        numbers=_numbers(rows),
        events=_events(rows),
        reached_heads=["success", *labels],
        reached=_reached(rows),
        logs=[_log(one) for row in rows for one in row.runs],
        sources=[_Row(what.name, (what.unit, what.source)) for what in DEFINITIONS.values()],
    )


def _comparison(one: RecipeComparison, rows: Sequence[Compared]) -> dict[str, Any]:
    found = equal_rows_of(one, rows)
    return {
        "tasks": one.tasks,
        "labels": one.labels,
        "rows": [_Row(label, comparison_cells(one, n)) for n, label in enumerate(one.labels)],
        "equal_heads": ["recipe", *found.heads] if found else [],
        "equal": [_Row(*each) for each in found.rows.items()] if found else [],
    }


def _sentence(name: str) -> str:
    return f"{DEFINITIONS[name].name.capitalize()} (IQM): {DEFINITIONS[name].text}"


def _short(rows: Sequence[Compared]) -> list[_Row]:
    lines = []
    for row in rows:
        lines.append(_Row(row.label, [str(len(row.runs)), *recipe_cells(row.stability)]))
        if len(row.runs) > 1:
            lines += [
                _Row(run_label(run), ["", *run_cells(run)], seed=True) for run in row.stability.runs
            ]
    return lines


def _numbers(rows: Sequence[Compared]) -> list[_Row]:
    lines = [
        _Row(_named(name), [DEFINITIONS[name].text, *(
            _summary(name, row.stability.numbers[name]) for row in rows)])
        for name in of_scope("run")
    ]  # fmt: skip
    apart = "dispersion_across_runs"
    cells = [shown(apart, row.stability.dispersion_across_runs) for row in rows]
    return [*lines, _Row(_named(apart), [DEFINITIONS[apart].text, *cells])]


def _summary(name: str, summary: SeedSummary) -> str:
    middle = summary.median
    if middle is None:
        return UNKNOWN
    text = shown(name, middle.value)
    if middle.low is not None and middle.high is not None:
        text += f", {shown(name, middle.low)} to {shown(name, middle.high)}"
    if len(summary.values) > 1 and summary.worst is not None:
        text += f" ({shown(name, summary.worst)})"
    return text if summary.known == len(summary.values) else f"{text}, {summary.known} known"


def _events(rows: Sequence[Compared]) -> list[_Row]:
    return [
        _Row(
            DEFINITIONS[name].name,
            [DEFINITIONS[name].text, *(_event(name, row.stability) for row in rows)],
        )
        for name in of_scope("event")
    ]


def _event(name: str, stability: RecipeStability) -> str:
    event, collapse = stability.events[name], name == "collapse"
    if len(stability.runs) == 1:
        (run,) = stability.runs
        return shown_collapse(run) if collapse else shown_outcome(run.events[name])
    said = UNKNOWN
    if event.rate is not None:
        unknown = len(stability.runs) - event.known
        # Nothing says that the unknown runs are like the others, so there is no interval.
        ends = range_text(event.rate.low, event.rate.high)
        said = f"{event.happened} of {len(stability.runs)}, "
        said += f"{unknown} unknown" if unknown else ends
    return f"{said}; {stability.halved} halved" if collapse and stability.halved else said


def _reached(rows: Sequence[Compared]) -> list[_Row]:
    return [
        _Row(f"{100 * of[0].level:.0f}%", [_level(level) for level in of])
        for of in zip(*(row.stability.reached for row in rows), strict=True)
    ]


def _level(level: ReachedSummary) -> str:
    if not level.known:
        return UNKNOWN
    parts = [f"{level.reached} of {level.known}"]
    for value, unit in (
        (level.updates, "updates"),
        (level.tokens, "tokens"),
        (level.seconds, "s"),
    ):
        if value is not None:
            parts.append(f"{value:,.0f} {unit}")
    return ", ".join(parts)


def _log(one: LoggedRun) -> _Log:
    reading = one.reading
    run = reading.run
    return _Log(
        path=str(one.log),
        source=f"{run.source}, {run.name}",
        parts=(
            ("Notes", reading.notes),
            ("Recognized under a condition", tuple(conditions(reading))),
            (
                "Read as ours",
                [f"{f}: {m.name}" for f, m in reading.read_as.items() if not m.provided],
            ),
            ("Unknown fields", [_unknown(name, reading.because) for name in run.unknown]),
            ("Metrics missing in this log", [", ".join(run.missing)]),
        ),
    )


def _unknown(name: str, because: Mapping[str, str]) -> str:
    return f"{name}: {because[name]}" if name in because else name


def _named(name: str) -> str:
    what = DEFINITIONS[name]
    return what.name if what.unit in ("share", "ratio", "count") else f"{what.name} ({what.unit})"
