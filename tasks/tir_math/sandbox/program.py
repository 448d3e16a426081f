"""The prelude of programs, and how the end of one is interpreted."""

from tasks.tir_math.sandbox.base import Status

PRELUDE = """\
def final_answer(answer):
    import sys
    sympy = sys.modules.get("sympy")
    def written(value):
        if sympy and isinstance(value, (sympy.Basic, sympy.MatrixBase)):
            return sympy.latex(value)
        if isinstance(value, (list, set, frozenset)):
            return ", ".join(map(written, value))
        if isinstance(value, tuple):
            return "(" + ", ".join(map(written, value)) + ")"
        return str(value)
    print("\\\\boxed{" + written(answer) + "}")
"""
"""Source of the names that every program finds."""

_WRAPPER = """\
import random
random.seed(0)
program = {program!a}
if "numpy" in program:
    try:
        import numpy
        numpy.random.seed(0)
    except ImportError:
        pass
names = {{"__name__": "__main__"}}
exec({prelude!a}, names)
exec(compile(program, "<program>", "exec"), names)
"""


def wrapped(code: str) -> str:
    """A program as one source text that needs nothing else, with its names and its seeds.

    The program is a string inside: its line numbers are its own, it may begin with a
    `from __future__ import`, and what it holds is ASCII, whatever it was before.
    """
    return _WRAPPER.format(program=code, prelude=PRELUDE)


def of_exit_code(code: int, stderr: str) -> Status:
    """What an exit code means; a program that ran out of memory says so last."""
    if code == 0:
        return "ok"
    last = stderr.rstrip().rpartition("\n")[2]
    name = last.partition(":")[0].rpartition(".")[2]
    return "memory limit" if name in {"MemoryError", "_ArrayMemoryError"} else "error"
