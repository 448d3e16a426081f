"""Logs of other trainers: TRL, verl and ARLArena, W&B exports, TensorBoard event files.

`find` tells the format of a path, `readings` reads it into curves (`RunCurves`) with what was
understood and what was not. Everything in a log may come from somebody else: sizes are bounded,
text is strict UTF-8, and whoever shows a name from a log escapes it.
"""

from benchmark.logs.foreign.detect import FORMATS, Format, Found, find, readings
from benchmark.logs.foreign.mapping import Meaning, own_words
from benchmark.logs.foreign.rows import Reading

__all__ = [
    "FORMATS",
    "Format",
    "Found",
    "Meaning",
    "Reading",
    "find",
    "own_words",
    "readings",
]
