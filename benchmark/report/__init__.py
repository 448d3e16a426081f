"""The report: one self-contained HTML file with a run's numbers, figures and episodes."""

from benchmark.report.build import report_html

__all__ = ["report_html"]
