r"""Checks answers: a table of pairs, hostile answers, and the lifetime of the checker's process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.errors import UserError
from tasks.tir_math.checking import MOST_CHARACTERS, Checker, CheckerFailed, process
from tasks.tir_math.checking.normalize import normalize, normalize_pair

# The reference answer and equal answers, in the groups of the modules' own lists.
EQUAL = [
    ("204", "m+n=204"), ("204", "100m+n = 204"), ("204", "m + n = 121 + 83 = 204"),
    ("204", "|S| = 204"), ("1+\\sqrt{2}", "1 + sqrt(2)"), ("e^2", "exp(2)"),
    (r"\frac{1+\sqrt5}{2}", "1/2 + sqrt(5)/2"), (r"\ln 2", "log(2)"), (r"\cos x", "cos(x)"),
    (r"1-\sqrt{19}, 1+\sqrt{19}", "1 - sqrt(19), 1 + sqrt(19)"), ("5", "f(2) = 5"),
    ("5", r"\theta = 5"), ("5", "2+3=5"), ("1500000", r"1.5 \times 10^6"),
    ("5", r"\frac{10}{2}"), ("0", "1e-17"),
    # integers
    ("5", "5"), ("33", "033"), ("33", "+33"), ("-5", "\u22125"), ("5", "5."), ("5", "$5$"),
    ("5", r"\(5\)"), ("1000", "1,000"), ("1,000", "1000"), ("1000", r"1\,000"), ("1000", "1{,}000"),
    ("1000000", "1 000 000"), (r"11,\! 111,\! 111,\! 100", "11111111100"), ("10,080", "10080"),
    ("12345678901234567890", "12345678901234567890"), ("100", "1e2"), (r"10^{20}", "1e+20"),
    ("3628800", "10!"), ("1024", "2^{10}"), ("10", r"\binom{5}{2}"), ("3", r"\log_2 8"),
    # fractions, decimals, roots
    (r"\frac{1}{2}", r"\frac12"), (r"\frac{1}{2}", r"\dfrac{1}{2}"), ("0.5", r"\tfrac{1}{2}"),
    (r"\frac{1}{2}", "1/2"), (r"\frac{1}{2}", ".5"), (r"\frac{14}{3}", r"4\frac{2}{3}"),
    (r"\frac{5}{2}", "2 1/2"), (r"-\frac{5}{2}", r"-2\frac12"),
    (r"\frac{1}{3}", "0.3333333333333333"),
    (r"\frac{1}{3}", r"0.\overline{3}"), (r"0.1\overline{6}", r"\frac16"), ("42", "42.0"),
    ("42", "41.99999999999999"), ("0", "-1.2e-17"), (r"10^{-7}", "1e-07"),
    (r"-\frac{35}{9}", r"\frac{-35}{9}"), (r"3\sqrt{13}", r"\sqrt{117}"),
    (r"\sqrt{13}", r"\sqrt 13"),
    (r"3\sqrt{13}", "10.816653826391969"), (r"\frac{\sqrt2}{2}", r"\frac{1}{\sqrt2}"),
    (r"\frac{\sqrt{2}}{2}", "sqrt(2)/2"), (r"\frac{\pi}{2}", "pi/2"), (r"\pi", "3.141592653589793"),
    # percent, units, money, degrees, bases
    (r"5\%", "5"), (r"5\%", "0.05"), ("0.05", "5%"), (r"5\%", "5 percent"),
    (r"15\mbox{ cm}^2", "15"),
    ("15", r"15\text{ cm}"), ("15", "15 cm"), ("15", "15 square feet"),
    (r"5.4 \text{ cents}", "5.4"),
    (r"10\text{ ft}", "10 feet"), (r"\$18.90", "18.9 dollars"), (r"\$32,\!348", "32348"),
    (r"90^\circ", "90"), ("90", "90\u00b0"), (r"90^\circ", "90 degrees"), ("4210_{5}", "4210_5"),
    ("4210_{5}", "4210"), ("4210_5", "555_{10}"), (r"2516_8", r"2516_{\text{eight}}"),
    # text and letters
    (r"\text{Evelyn}", "Evelyn"), ("Evelyn", r"\textbf{Evelyn}"), (r"\text{(C)}", "C"),
    (r"\text{(C)}", r"\textbf{(C)}"), ("C", "(c)"), (r"\text{yes}", "Yes."),
    ("True", r"\text{true}"),
    (r"\text{June 20}", "June 20"), (r"\text{6:00 pm}", "6:00 pm"), (r"\text{A}, \text{B}", "B, A"),
    # algebra
    ("p - q", "-q+p"), ("p - q", "p-q"), ("(x+1)^2", "x^2+2x+1"), ("x^{10}", "x**10"),
    ("6+9c", "9c+6"), ("xy", "yx"),
    ("x^2 + C", "C + x^2"), (r"\tan x", r"\frac{\sin x}{\cos x}"), (r"\sqrt{x^2}", "|x|"),
    # equations and relations
    ("5", "x=5"), ("x=5", "5"), ("x=5", "5=x"), ("2x+3", "y=2x+3"), ("y=2x+3", "2x-y+3=0"),
    ("1,2", r"x=1 \text{ or } x=2"), ("1, 2", "x=1, x=2"), ("x>5", "5<x"), ("x>5", r"(5,\infty)"),
    ("[-2,7]", r"x \in [-2,7]"), ("[-2,7]", r"-2 \le x \le 7"),
    # several answers, points, intervals, sets
    ("1,-2", "-2,1"), ("1,2", r"\{2,1\}"), ("3, 5, 7", "3,5, and 7"),
    (r"1 \pm \sqrt{19}", r"1-\sqrt{19},1+\sqrt{19}"),
    ("(1,2)", "1,2"), ("(1,2)", r"\left( 1, 2 \right)"), ("(2,1)", "(2, 1)"), ("1,2", "(2,1)"),
    (r"\left( 3, \frac{\pi}{2} \right)", "(3, 1.5707963267948966)"),
    ("(1,2,3)", r"\langle 1,2,3 \rangle"),
    ("(1,2)", "(x,y)=(1,2)"), ("(1,2),(3,4)", "(3,4),(1,2)"), (r"(\frac35,\frac83]", "(0.6, 8/3]"),
    (r"(-\infty,2)\cup(3,\infty)", r"(3,\infty)\cup(-\infty,2)"), (r"\emptyset", r"\{\}"),
    (r"\infty", "oo"), (r"\emptyset", r"\varnothing"),
    # complex numbers and matrices
    ("6 - 5i", "-5i+6"), ("1+2i", "(1+2j)"), ("2i", "(1+i)^2"), ("i", r"\sqrt{-1}"),
    ("-1", r"e^{i\pi}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\left[\begin{matrix}1\\2\end{matrix}\right]"),
    (r"\begin{pmatrix}-\frac13\\2\end{pmatrix}", r"\begin{bmatrix}-1/3\\2\end{bmatrix}"),
]  # fmt: skip

# The reference answer and answers that differ from it.
DIFFERENT = [
    ("5", "6=5"), ("7", "1=2=7"), ("7", "x=6=7"), ("5", "2+2=5"),
    ("0.0000003", "0"), (r"2^{-99}", "0.0"),
    ("5", "6"), ("5", "-5"), ("5", "50"), ("33", "34"), ("1000", "1,001"), ("12,13", "12.13"),
    ("12345678901234567890", "12345678901234567891"),
    ("12345678901234567890", "1.2345678901234567e19"),
    (r"2^{100}", r"2^{100}+1"), (r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"),
    (r"\frac{1}{2004!}", r"\frac{1}{2006!}"),
    (r"\frac{2^{2005}+1}{3\cdot 2^{2006}}", r"\frac{1}{3\cdot 2^{2006}}"), (r"10^{-7}", "1e-08"),
    (r"\frac{1}{3}", "0.333"), ("0.000001", "0.000002"), ("42", "42.1"), ("42", "41.9999"),
    ("0", r"10^{-9}"),
    (r"3\sqrt{13}", "10.8"), (r"\pi", r"\frac{22}{7}"), (r"\pi", "3.14"), (r"2\frac12", "1"),
    (r"0.\overline{3}", "0.3"), (r"1-\frac1e", r"1+\frac1e"), ("1", r"\frac{1}{0}"),
    (r"\infty", r"-\infty"),
    (r"10\%", "1"), ("5", "5 million"), ("5", r"5\text{ thousand}"), ("5", "5 squared"),
    (r"5\text{ cm}", r"6\text{ cm}"), (r"3\text{i}", "3"), ("3h", "3"), ("6+9c", "15"),
    ("12:00", "1:00"), ("1:2", "1:3"), ("4210_5", "4210_6"), (r"\frac{\pi}{2}", r"90^\circ"),
    (r"\text{Evelyn}", "Carla"), ("Evelyn", "Evelny"), (r"\text{(C)}", "B"), (r"\text{yes}", "no"),
    ("True", "False"), (r"\text{6:00 pm}", "6:00 am"), (r"\text{A}, \text{B}", "A"),
    ("p-q", "q-p"), ("(x+1)^2", "x^2+2x+2"), ("x^2+C", "x^2"), (r"\sqrt{x^2}", "x"), ("2x", "2y"),
    ("p - q", "q - p"),
    ("x=5", "y=5"), ("y=2x+3", "y=2x+4"), ("n=2,3,4", "n=1,2,3"), ("x>5", r"x \geq 5"),
    ("[-2,7]", "(-2,7)"), ("[-2,7]", "[-2,7)"),
    (r"(-\infty,2)\cup(3,\infty)", r"(-\infty,2]\cup(3,\infty)"),
    ("(1,2)", "(2,1)"), ("(1,2)", "2,1"), ("(2,1)", "(5,3)"), ("(1,2)", "(1,2,3)"),
    ("D=(0,1)", "D=(0,1.5)"),
    ("5,6", "5"), ("5", "5,6"), ("5", "5 or 6"), ("5", r"\pm 5"), (r"\pm 5", "5"), ("1,2,3", "1,2"),
    (r"1 \pm \sqrt{19}", r"1+\sqrt{19}"), ("(1,2),(3,4)", "(1,2),(4,3)"), (r"\emptyset", r"\{0\}"),
    ("(1,2)", "(x,y)=(1,3)"), (r"1,2,\ldots,n", r"1,3,5,\ldots,2n-1"), ("6-5i", "6+5i"),
    ("2i", "(1-i)^2"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\3\end{pmatrix}"),
    ("5", "the answer is 5"), ("5", "I do not know"),
]  # fmt: skip

# (name, answer): answers that take forever, fill the memory, or are not mathematics.
HOSTILE = {
    "tower of powers": "9^{9^{9^{9}}}",
    "plain tower": "10^10^10",
    "double factorial": "100000!!",
    "factorial": "(10^{9})!",
    "nested factorials": "((((9!)!)!)!)!",
    "power of a power": "(2^{1000000000})^{1000000000}",
    "binomial": r"\binom{10^{8}}{5 \cdot 10^{7}}",
    "long sum": "+".join(["1"] * 500),
    "sum of many symbols": "+".join(f"x_{{{n}}}" for n in range(140)),
    "sum to a billion": r"\sum_{n=1}^{10^{9}} \frac{1}{n^2+\sin n}",
    "product to a billion": r"\prod_{n=1}^{10^{9}} n",
    "integral": r"\int_0^1 \frac{\sin(x^x)}{x^{\cos x}} dx",
    "sine of a huge number": r"\sin(10^{10^7})",
    "large polynomial": "(x+y+z+w)^{300}",
    "nested functions": r"\sin(\cos(" * 60 + "x" + "))" * 60,
    "400 parentheses": "(" * 400 + "1" + ")" * 400,
    "400 braces": "{" * 400 + "1" + "}" * 400,
    "110 fractions": r"\frac{1}{" * 110 + "1" + "}" * 110,
    "160 roots": r"\sqrt{" * 160 + "2" + "}" * 160,
    "400 exponents": "x^" * 400,
    "many unions": r"\cup".join(["(1,2)"] * 100),
    "many signs": r"\pm 1" * 100,
    "python": "__import__('os').system('touch {}')",
    "1000 digits": "9" * 1000,
    "huge exponent": "1e999",
    "null bytes": "\x00" * 10,
    "lone surrogate": "\ud800",
    "lone surrogate in text": "\\text{\udfff}",
    "replacement character": "\ufffd",
    "backslashes": "\\" * 999,
    "dollars": "$" * 999,
    "spaces": " " * 999,
    "unclosed box": r"\boxed{" * 120,
    "empty": "",
    "too long": "1" * (MOST_CHARACTERS + 1),
}


@pytest.fixture(scope="module")
def hasty() -> Iterator[Checker]:
    # A shorter limit than in play, so that the tests, which reach it, finish sooner.
    with Checker(cpu_limit_s=0.3) as checker:
        yield checker


@pytest.fixture(scope="module")
def checker() -> Iterator[Checker]:
    with Checker() as checker:
        yield checker


def ended(pid: int) -> bool:
    """Whether a process ends soon; a zombie has ended."""
    stat = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "answer"), EQUAL)
def test_equal(checker: Checker, truth: str, answer: str) -> None:
    assert checker.check(answer, truth).reason == "equal"


@pytest.mark.slow
@pytest.mark.parametrize(("truth", "answer"), DIFFERENT)
def test_different(checker: Checker, truth: str, answer: str) -> None:
    verdict = checker.check(answer, truth)
    assert not verdict.equal
    assert verdict.reason in {"different", "unreadable"}


@pytest.mark.slow
@pytest.mark.parametrize("truth", sorted({truth for truth, _ in EQUAL + DIFFERENT}))
def test_every_right_answer_is_its_own(checker: Checker, truth: str) -> None:
    assert checker.check(truth, truth).equal


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_answer_is_wrong_and_does_no_harm(
    name: str, hasty: Checker, tmp_path: Path
) -> None:
    hasty.start()
    pid = hasty.pid
    mark = tmp_path / "mark"
    assert not hasty.check(HOSTILE[name].replace("{}", str(mark)), "5").equal
    assert hasty.check("5", "5").equal
    assert hasty.pid == pid
    assert not mark.exists()


@pytest.mark.slow
def test_the_time_limit_is_the_reason(hasty: Checker) -> None:
    for answer in ("9^{9^{9^{9}}}", "((((9!)!)!)!)!", r"\sum_{n=1}^{10^{9}} \sin n"):
        assert hasty.check(answer, "5").reason == "time limit"


@pytest.mark.slow
@pytest.mark.parametrize(
    "truth", ["", " ", "?", r"\text{}", r"\frac{1}{0}", r"\frac{1}{", "1" * 1001]
)
def test_an_unreadable_right_answer_is_an_error_whatever_is_answered(
    checker: Checker, truth: str
) -> None:
    for answer in ("5", truth, ""):
        with pytest.raises(ValueError, match="reference answer"):
            checker.check(answer, truth)


def test_a_right_answer_that_takes_too_long_is_an_error(hasty: Checker) -> None:
    with pytest.raises(ValueError, match="within the limits"):
        hasty.check("5", "(" * 400 + "1" + ")" * 400)


def test_unreadable_answers_say_so(checker: Checker) -> None:
    for answer in ("", "?", r"\frac{1}{0}", "1" * (MOST_CHARACTERS + 1), "1" * 2**20):
        assert checker.check(answer, "5").reason == "unreadable"


def test_the_process_has_limits(checker: Checker) -> None:
    checker.start()
    lines = Path(f"/proc/{checker.pid}/limits").read_text().splitlines()
    limits = {line[:26].strip(): line[26:].split()[:2] for line in lines}
    assert limits["Max address space"] == [str(2 * 2**30)] * 2
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max file size"] == ["0", "0"]


@pytest.mark.slow
def test_the_environment_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret")
    with Checker() as checker:
        checker.start()
        assert b"secret" not in Path(f"/proc/{checker.pid}/environ").read_bytes()


@pytest.mark.slow
def test_a_killed_process_is_replaced(checker: Checker) -> None:
    checker.start()
    first = checker.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert checker.check("0.5", r"\frac12").equal
    assert checker.pid not in {None, first}
    assert ended(first)


def test_a_process_that_always_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_START", "raise SystemExit(3)")
    with Checker() as checker:
        with pytest.raises(CheckerFailed, match="3 times"):
            checker.check("5", "5")
        with pytest.raises(CheckerFailed, match="did not start"):
            checker.start()
        assert checker.pid is None


def with_compare(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Give the process another comparison for answers to 7."""
    change = (
        "import os, signal; from tasks.tir_math.checking import comparison; "
        "comparison.Pair.compare = lambda self: "
        f"({body}) if self._truth_text == '7' else 'equal'; "
    )
    begin, call, rest = process._START.partition("main(*map")
    monkeypatch.setattr(process, "_START", begin + change + call + rest)


@pytest.mark.slow
def test_a_full_memory_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    with_compare(monkeypatch, "bytearray(3 * 2**30)")
    with Checker() as checker:
        assert checker.check("5", "7").reason == "memory limit"
        assert checker.check("5", "5").equal


@pytest.mark.slow
def test_a_crash_is_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with_compare(monkeypatch, "os.kill(os.getpid(), signal.SIGSEGV)")
    with Checker() as checker:
        assert checker.check("5", "7").reason == "failed"
        assert checker.check("5", "5").equal


@pytest.mark.slow
def test_a_kill_from_outside_is_no_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with_compare(monkeypatch, "os.kill(os.getpid(), signal.SIGKILL)")
    with Checker() as checker:
        with pytest.raises(CheckerFailed, match="3 times.*was killed"):
            checker.check("5", "7")
        assert checker.check("5", "5").equal


@pytest.mark.slow
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hide = "import sys; sys.modules['math_verify'] = None; "
    monkeypatch.setattr(process, "_START", hide + process._START)
    with Checker() as checker, pytest.raises(UserError, match=r"math_verify.*make install"):
        checker.check("5", "5")


@pytest.mark.slow
def test_close_leaves_no_process_and_no_descriptor() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with Checker() as checker:
        assert checker.check("5", "5").equal
        pid = checker.pid
        assert pid is not None
    checker.close()
    assert not Path(f"/proc/{pid}").exists()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.slow
def test_a_closed_checker_starts_again() -> None:
    with Checker() as checker:
        assert checker.check("5", "5").equal
        checker.close()
        assert checker.check("6", "5").reason == "different"


@pytest.mark.slow
def test_nothing_is_left_when_the_parent_is_killed_in_the_middle() -> None:
    program = (
        "from tasks.tir_math.checking import Checker\n"
        "checker = Checker(cpu_limit_s=1000)\n"
        "checker.start()\n"
        "print(checker.pid, flush=True)\n"
        "checker.check('9^{9^{9^{9}}}', '5')\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)) or "."},
    )
    assert parent.stdout is not None
    with parent, parent.stdout:
        pid = int(parent.stdout.readline())
        children = Path(f"/proc/{pid}/task/{pid}/children")
        deadline = time.monotonic() + 60
        while not (copies := children.read_text().split()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(copies) == 1
        parent.kill()
    assert ended(pid)
    assert ended(int(copies[0]))


@pytest.mark.slow
def test_threads_and_checkers_share_nothing() -> None:
    with Checker() as one, Checker() as two, ThreadPoolExecutor(4) as pool:
        questions = [(checker, n) for n in range(20) for checker in (one, two)]
        verdicts = pool.map(
            lambda it: it[0].check(str(it[1]), str(it[1] // 2 * 2)).equal, questions
        )
        assert list(verdicts) == [n % 2 == 0 for _, n in questions]
        assert one.pid != two.pid


@pytest.mark.slow
def test_the_parent_imports_no_sympy() -> None:
    program = (
        "import sys\n"
        "from tasks.tir_math.checking import Checker\n"
        "with Checker() as checker:\n"
        "    assert checker.check('5', '5').equal\n"
        "assert not {'sympy', 'math_verify', 'antlr4'} & set(sys.modules)\n"
    )
    path = os.pathsep.join(filter(None, sys.path)) or "."
    subprocess.run(
        [sys.executable, "-c", program], check=True, env=os.environ | {"PYTHONPATH": path}
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x**10 + y**(2*n)", "x^{10} + y^{2*n}"),
        ("2.5e-07", "0.00000025"),
        (r"0.1\overline{6}", r"\frac{15}{90}"),
        ("2 1/2", r"2\frac{1}{2}"),
        ("1 234 567", "1234567"),
        ("12:00", r"\text{12:00}"),
        ("Evelyn", r"\text{Evelyn}"),
        ("xyz", "xyz"),
        ("5 cm^2", "5"),
        ("5 million", "5 million"),
        (r"3\text{i}", r"3\text{i}"),
        (r"2 \text{ and } 3", r"2 \text{ and } 3"),
    ],
)
def test_notation_is_rewritten(text: str, expected: str) -> None:
    assert normalize(text) == expected


def test_the_right_answer_is_read_before_the_given_one_is_looked_at() -> None:
    """A failure due to the given answer's notation is not blamed on the right answer."""
    with Checker(cpu_limit_s=0.3) as checker:
        # `check` would not pass on such a long text, whose notation takes seconds.
        assert checker._ask("5", "1" * 100_000) == (["read"], -signal.SIGPROF)


def test_rules_of_both_sides() -> None:
    assert normalize_pair("101_2", "12_{3}") == ("5", "5")
    assert normalize_pair("101_2", "5") == ("101_2", "5")
    assert normalize_pair("102_2", "12_3") == ("102_2", "12_3")
    assert normalize_pair(r"\text{no}", "no") == (r"\text{no}", r"\text{no}")
    assert normalize_pair("no", "on") == ("no", "on")
