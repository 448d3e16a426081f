"""Memory is bounded while reading, whatever the form of the JSON."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmark.evaluation.records import EpisodeRecord, SequenceRecord
from benchmark.logs.training_log import parse_training_log
from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.reading.allowance import Allowance
from benchmark.submissions.reading.folder import MAX_LOGS
from tasks.tir_math.outputs import MOST_SHOWN
from tasks.tir_math.response import MOST_ANSWER_CHARACTERS
from tests.benchmark.submissions.conftest import Copies
from tests.support.measured import alone, cost
from tests.support.runs.factories import make_record, make_turn
from tests.support.submissions.small import check
from tests.support.training.logs import start_line, update_line, validation_line

MIB = 2**20
LIMIT = 32 * MIB
FULL = "records and logs take more than 32 MiB of memory"


def with_info(info: Any) -> Any:
    return [make_turn("x", None).model_copy(update={"info": {"x": info}})] * 8


def line_of(shape: str) -> bytes:
    """A record with as many parts as possible, each as small as possible."""
    turns: dict[str, Any] = {
        "turns": [make_turn("", None, prompt_tokens=None, response_tokens=None)] * 100,
        "lists": with_info([[]] * 990),
        "objects": with_info([{}] * 990),
        "pairs": with_info([{"a": 1000}] * 480),
        "numbers": with_info(list(range(1000, 1990))),
        "fractions": with_info([1.5] * 990),
        "words": with_info(["ab"] * 990),
        "letters": [make_turn("x" * 9_999 + "\N{GRINNING FACE}", None)] * 8,
        "tokens": 1,
        "written": 1,
    }
    record = make_record(turns=turns[shape])
    if shape in ("tokens", "written"):
        ids = tuple(range(1000, 21_000)) if shape == "tokens" else (1,) * 2_000
        written = () if shape == "tokens" else tuple((2 * n, 2 * n + 1) for n in range(1_000))
        sequence = SequenceRecord(token_ids=ids, written=written)
        record = record.model_copy(update={"sequence": sequence})
    return record.model_dump_json().encode()


SHAPES = ["turns", "lists", "objects", "pairs", "numbers", "fractions", "words", "letters"]
SHAPES += ["tokens", "written"]


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_records_take_what_they_are_weighed_as(shape: str) -> None:
    """All records accepted below the limit fit into it, with a fifth on top for the allocator."""
    mib = alone(_filled, line_of(shape))
    assert mib < 1.2 * LIMIT / MIB


def _filled(line: bytes) -> float:
    """MiB of as many records as are accepted."""
    allowance, kept = Allowance(LIMIT), []

    def fill() -> None:
        with pytest.raises(Rejected, match=FULL):
            while True:
                kept.append(allowance.keep(EpisodeRecord.model_validate_json(line)))

    EpisodeRecord.model_validate_json(line)
    return cost(fill)[1]


def test_equal_tokens_are_one_object_and_all_stays_as_it_is() -> None:
    line = line_of("tokens")
    allowance = Allowance()
    one, other = (allowance.keep(EpisodeRecord.model_validate_json(line)) for _ in range(2))
    assert one == other == EpisodeRecord.model_validate_json(line)
    assert one.sequence is not None and other.sequence is not None
    pairs = zip(one.sequence.token_ids, other.sequence.token_ids, strict=True)
    assert all(mine is theirs for mine, theirs in pairs)


@pytest.mark.slow
def test_logs_take_what_they_are_weighed_as() -> None:
    """With the shortest lines, and with a configuration of empty lists."""
    assert alone(_logs, [update_line(n) for n in range(1, 5_000)]) < 1.2 * LIMIT / MIB
    assert alone(_logs, [validation_line(n) for n in range(1, 2_000)]) < 1.2 * LIMIT / MIB
    assert alone(_logs, [], [[]] * 10_000) < 1.2 * LIMIT / MIB
    resume = {"kind": "resume", "update": 0, "engine": {}, "versions": {}}
    assert alone(_logs, [resume] * 5_000) < 1.2 * LIMIT / MIB
    assert alone(_logs, [{**resume, "engine": {"x": [[]] * 10_000}}]) < 1.2 * LIMIT / MIB


def _logs(lines: list[dict[str, Any]], configured: object = None) -> float:
    start = start_line(configuration={"x": configured})
    content = "".join(json.dumps(line) + "\n" for line in (start, *lines)).encode()
    allowance, kept = Allowance(LIMIT), []

    def fill() -> None:
        with pytest.raises(Rejected, match=FULL):
            while True:
                kept.append(parse_training_log(content, Path("log")))
                allowance.add(kept[-1])

    parse_training_log(content, Path("log"))
    return cost(fill)[1]


@pytest.mark.slow
def test_a_small_folder_does_not_fill_the_memory(copies: Copies) -> None:
    """50 KB on disk are 30 MB of JSON, which would become 700 MiB of empty lists."""
    copy = copies("policy")
    name = "runs/r0/episodes.jsonl.zst"
    lines = []
    for line in copy.read(name).splitlines():
        record = json.loads(line)
        turn = {**record["turns"][0], "info": {"x": [[]] * 990}}
        text = json.dumps({**record, "turns": [turn] * 40}, separators=(",", ":"))
        lines.append(text.encode() + b"\n")
    copy.write(name, b"".join(lines))
    seconds, mib, text = alone(_checked, copy.folder)
    assert text.startswith("size: records and logs take more than 512 MiB of memory")
    assert mib < 640
    assert seconds < 60


def _checked(folder: Path) -> tuple[float, float, str]:
    found = []
    seconds, mib = cost(lambda: found.append(check(folder)))
    return seconds, mib, found[0].findings[0].text


def test_a_log_of_the_shortest_lines_is_refused_before_it_is_too_much() -> None:
    """The longest log has 700,000 lines of 47 bytes, which take seven times as much memory."""
    assert MAX_LOGS / 47 * 350 < 2**28


def test_what_a_program_of_tir_math_prints_fits_into_a_record() -> None:
    """An escaped character can take six."""
    longest = "\0" * (4 * MOST_SHOWN)
    answer = "\0" * MOST_ANSWER_CHARACTERS
    info = {"status": "output limit", "output": longest, "boxed": answer, "answer": answer}
    turn = make_turn().model_copy(update={"info": {**info, "verdict": "equal"}})
    record = make_record(turns=[turn])
    assert EpisodeRecord.model_validate_json(record.model_dump_json()) == record
    assert sys.getsizeof(json.dumps(info)) < 2**15
