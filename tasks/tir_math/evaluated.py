"""Whether an answer is a number, or an unfinished computation.

Mathematics does not tell 9648 from 4586 + 5062. Where a problem was generated from one operation on
two numbers, the second is the question itself, and a model that copies it has solved nothing.
"""

import re

from tasks.tir_math.checking.normalize import normalize

_NUMBER = re.compile(r"-?(?:\d+|\\frac\{\d+\}\{\d+\})")
# A decimal power stands for the place of the point.
_POWER_OF_TEN = re.compile(r"(?:\\times|\\cdot|\*)\s*10\s*\^\s*(?:\{\s*[+-]?\d+\s*\}|\d)")
_COMPUTES = re.compile(
    r"[+*!|]|(?<=[\w)}\]])\s*-|\^(?!\s*\{?\s*\\circ)"
    r"|\\(?:cdot|times|div|[dt]?binom|sqrt|sum|prod|int|gcd|lcm|min|max|log|ln|lg|exp|sin|cos|tan"
    r"|operatorname|[bp]?mod|lfloor|lceil)(?![A-Za-z])"
)


def is_evaluated(answer: str, truth: str) -> bool:
    r"""Whether an answer is a number where the right one is.

    A fraction need not be in lowest terms, `1.5 \times 10^6` is a number, and of `2 + 3 = 5` the
    last member counts. Right answers that are no integer or fraction (roots) are free of this.
    """
    if not _NUMBER.fullmatch(truth):
        return True
    last = normalize(answer).rpartition("=")[2].strip()
    return not _COMPUTES.search(_POWER_OF_TEN.sub("", last).lstrip("+-( {"))
