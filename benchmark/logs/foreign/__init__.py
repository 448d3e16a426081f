"""Logs of other trainers: TRL, verl and ARLArena, W&B exports, TensorBoard event files.

`find` detects the format of a path; `readings` converts it to curves (`RunCurves`) and reports
which fields were understood. A log may come from anyone: sizes are limited, text is strict UTF-8,
and code that shows a name from a log escapes it.
"""

from benchmark.logs.foreign.detect import FORMATS, Format, Found, find, readings
from benchmark.logs.foreign.mapping import Meaning, listed, own_words, success_advice
from benchmark.logs.foreign.rows import Reading

__all__ = [
    "FORMATS",
    "Format",
    "Found",
    "Meaning",
    "Reading",
    "find",
    "listed",
    "own_words",
    "readings",
    "success_advice",
]
