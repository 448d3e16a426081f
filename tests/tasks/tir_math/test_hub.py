"""The loading code for the field's data sets, on small files in their formats."""

import csv
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from datasets import Dataset
from huggingface_hub import constants

from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.tir_math import hub
from tasks.tir_math.hub import VARIABLE, available, content_sha256, field_panels, read_problems

Rows = list[dict[str, Any]]


def aime24_rows() -> Rows:
    """The format of HuggingFaceH4/aime_2024: another order, answers as texts with leading zeros."""
    papers = [(paper, number) for paper in ("I", "II") for number in range(1, 16)]
    return [
        {
            "id": 60 + index,
            "problem": f"What is {index} plus $1$?",
            "solution": f"Count one further: \\boxed{{{index + 1:03d}}}.",
            "answer": f"{index + 1:03d}",
            "url": "https://artofproblemsolving.com/wiki/index.php/"
            f"2024_AIME_{paper}_Problems/Problem_{number}",
            "year": "2024",
        }
        for index, (paper, number) in enumerate(reversed(papers))
    ]


def boxed_rows() -> Rows:
    """The format of math-ai/aime24: the answer is only in the solution's box."""
    keys = ("id", "problem", "url")
    return [
        {key: row[key] for key in keys} | {"solution": f"\\boxed{{{row['answer']}}}"}
        for row in aime24_rows()
    ]


def aime25_rows() -> Rows:
    """The format of math-ai/aime25: ids start at 0."""
    return [
        {"problem": f"Find {index} times $7$.", "answer": str(index * 7), "id": str(index)}
        for index in range(30)
    ]


def math500_rows() -> Rows:
    return [
        {
            "problem": f"Write {index} sevenths as a fraction.",
            "solution": f"It is $\\boxed{{\\frac{{{index}}}{{7}}}}$.",
            "answer": f"\\frac{{{index}}}{{7}}",
            "subject": "Prealgebra",
            "level": index % 5 + 1,
            "unique_id": f"test/prealgebra/{index}.json",
        }
        for index in range(500)
    ]


ROWS: Mapping[str, Callable[[], Rows]] = {
    "aime24": aime24_rows,
    "aime25": aime25_rows,
    "math500": math500_rows,
}


def write(path: Path, rows: Rows) -> None:
    """A file in the format of its extension."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        Dataset.from_list(rows).to_parquet(path)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def read(folder: Path, name: str, rows: Rows, suffix: str = ".jsonl") -> tuple[PanelEntry, ...]:
    write(folder / (name + suffix), rows)
    return read_problems(name)


def test_the_panels_are_whole() -> None:
    facts = {name: (panel.episodes, panel.split) for name, panel in field_panels().items()}
    assert facts == {"aime24": (30, "train"), "aime25": (30, "test"), "math500": (500, "test")}
    for panel in field_panels().values():
        assert len(bytes.fromhex(panel.revision)) == 20
        assert len(bytes.fromhex(panel.file_sha256)) == 32


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("suffix", hub.SUFFIXES)
def test_every_form_gives_the_same_entries(folder: Path, name: str, suffix: str) -> None:
    assert not available(name)
    rows = ROWS[name]()
    entries = read(folder, name, rows, suffix)
    assert available(name)
    assert [entry.data["question"] for entry in entries] == [row["problem"] for row in rows]
    (folder / (name + suffix)).unlink()
    assert entries == read(folder, name, rows)


def test_aime24(folder: Path) -> None:
    entries = read(folder, "aime24", aime24_rows())
    assert entries[2] == PanelEntry(
        "aime24-62",
        "11-15",
        {"question": "What is 2 plus $1$?", "answer": "3", "source": "62"},
    )
    assert entries[14].category == "1-5"
    assert Counter(entry.category for entry in entries) == {"1-5": 10, "6-10": 10, "11-15": 10}


def test_aime24_with_boxed_solutions(folder: Path) -> None:
    boxed = read(folder, "aime24", boxed_rows(), ".parquet")
    (folder / "aime24.parquet").unlink()
    assert boxed == read(folder, "aime24", aime24_rows())


def test_aime25(folder: Path) -> None:
    entries = read(folder, "aime25", aime25_rows())
    assert entries[20] == PanelEntry(
        "aime25-20", "6-10", {"question": "Find 20 times $7$.", "answer": "140", "source": "20"}
    )
    assert Counter(entry.category for entry in entries) == {"1-5": 10, "6-10": 10, "11-15": 10}


def test_aime_answers_may_be_integers(folder: Path) -> None:
    rows = [row | {"answer": int(row["answer"])} for row in aime25_rows()]
    assert read(folder, "aime25", rows)[5].data["answer"] == "35"


def test_problems_without_a_known_number_are_one_group(folder: Path) -> None:
    rows = [row | {"id": f"p{row['id']}"} for row in aime25_rows()]
    assert {entry.category for entry in read(folder, "aime25", rows)} == {"all"}


def test_math500(folder: Path) -> None:
    entries = read(folder, "math500", math500_rows())
    assert entries[8] == PanelEntry(
        "math500-prealgebra-8",
        "4",
        {
            "question": "Write 8 sevenths as a fraction.",
            "answer": "\\frac{8}{7}",
            "source": "test/prealgebra/8.json",
        },
    )
    assert Counter(entry.category for entry in entries) == dict.fromkeys("12345", 100)


def test_the_hash_is_of_ids_problems_and_answers_in_order(folder: Path) -> None:
    rows = aime25_rows()
    plain = content_sha256(read(folder, "aime25", rows))
    canonical = json.dumps(
        [[row["id"], row["problem"], row["answer"]] for row in rows], separators=(",", ":")
    )
    assert plain == hashlib.sha256(canonical.encode()).hexdigest()
    more_columns = [row | {"year": 2025} for row in rows]
    assert content_sha256(read(folder, "aime25", more_columns)) == plain
    for changed in (
        [rows[1], rows[0], *rows[2:]],
        [rows[0] | {"answer": "1"}, *rows[1:]],
        [rows[0] | {"problem": "Find 0."}, *rows[1:]],
        [rows[0] | {"id": "zero"}, *rows[1:]],
    ):
        assert content_sha256(read(folder, "aime25", changed)) != plain


@pytest.mark.parametrize("count", [29, 31])
def test_other_numbers_of_problems_are_refused(folder: Path, count: int) -> None:
    rows = [
        {"problem": f"Find {index}.", "answer": "7", "id": str(index)} for index in range(count)
    ]
    with pytest.raises(UserError, match=rf"aime25\.jsonl has {count} problems, but aime25 has 30"):
        read(folder, "aime25", rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem": None}, "row 3, problem: is missing"),
        ({"problem": " \n"}, "row 3, problem: is empty"),
        ({"problem": "x" * 20_001}, "row 3, problem: has more than 20000 characters"),
        ({"problem": "Find 0 times $7$."}, "row 3, problem: the same as in row 1"),
        ({"id": "1"}, "row 3, id: the same as in row 2"),
        ({"id": None}, "row 3, id: is missing"),
        ({"id": " "}, "row 3, id: must be an integer or a string"),
        ({"id": "1" * 201}, "row 3, id: has more than 200 characters"),
        ({"answer": None}, "row 3, answer: is missing"),
        ({"answer": ""}, "row 3, answer: must be an integer from 0 to 999, not ''"),
        ({"answer": "1000"}, "row 3, answer: must be an integer from 0 to 999, not '1000'"),
        ({"answer": "-1"}, "row 3, answer: must be an integer from 0 to 999"),
        ({"answer": "\u0663"}, "row 3, answer: must be an integer from 0 to 999"),
        ({"answer": "1/2"}, "row 3, answer: must be an integer from 0 to 999"),
    ],
)
def test_wrong_fields_of_the_aime(folder: Path, change: dict[str, Any], message: str) -> None:
    rows = aime25_rows()
    rows[2] |= change
    with pytest.raises(UserError, match="aime25.jsonl, " + message):
        read(folder, "aime25", rows)


@pytest.mark.parametrize("answer", [1.5, True])
def test_aime_answers_of_other_types(folder: Path, answer: object) -> None:
    rows = [row | {"answer": answer} for row in aime25_rows()]
    with pytest.raises(UserError, match=f"row 1, answer: must be an integer, not {answer}"):
        read(folder, "aime25", rows)


def test_a_solution_without_a_box(folder: Path) -> None:
    rows = boxed_rows()
    rows[4]["solution"] = "It is 5."
    with pytest.raises(UserError, match="row 5, solution: must have an integer from 0 to 999"):
        read(folder, "aime24", rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": 6}, "level: must be an integer from 1 to 5, not '6'"),
        ({"level": None}, "level: is missing"),
        ({"answer": None}, "answer: is missing"),
        ({"answer": ""}, "answer: is empty"),
        ({"answer": "1" * 1001}, "answer: has more than 1000 characters"),
        ({"unique_id": None}, "unique_id: is missing"),
        ({"unique_id": "test/prealgebra/3.json"}, "id: the same as in row 4"),
        ({"unique_id": "prealgebra-3"}, "name: the same as in row 4"),
    ],
)
def test_wrong_fields_of_math500(folder: Path, change: dict[str, Any], message: str) -> None:
    rows = math500_rows()
    rows[499] |= change
    with pytest.raises(UserError, match="row 500, " + message):
        read(folder, "math500", rows)


def test_fields_of_other_types(folder: Path) -> None:
    rows: Rows = [row | {"answer": index} for index, row in enumerate(math500_rows())]
    with pytest.raises(UserError, match="row 1, answer: must be a string, not int"):
        read(folder, "math500", rows)
    rows = [row | {"problem": ["Find", "x"]} for row in aime25_rows()]
    with pytest.raises(UserError, match="row 1, problem: must be a string, not list"):
        read(folder, "aime25", rows)
    rows = [row | {"id": 0.5} for row in aime25_rows()]
    with pytest.raises(UserError, match="row 1, id: must be an integer or a string"):
        read(folder, "aime25", rows)


@pytest.mark.parametrize("suffix", hub.SUFFIXES)
@pytest.mark.parametrize(
    "content", [b"\x80\x81\xff\x00", b'{"problem": "Find 1.", "answer"', b'["a", 3]\n', b"\n\n"]
)
def test_files_of_another_form(folder: Path, suffix: str, content: bytes) -> None:
    (folder / f"aime25{suffix}").write_bytes(content)
    with pytest.raises(UserError, match=f"aime25{suffix}"):
        read_problems("aime25")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "id,problem,answer\n0,Find 1.,1\n1,Find 2.,2,3\n",
            "row 2: has 4 cells, but the first line has 3",
        ),
        ("id,problem,answer\n0,Find 1.\n", "row 1: has 2 cells, but the first line has 3"),
        ("id,problem,answer,answer\n0,Find 1.,1,2\n", "has duplicate columns: id, problem"),
    ],
)
def test_ragged_tables_are_refused(folder: Path, content: str, message: str) -> None:
    (folder / "aime25.csv").write_text(content)
    with pytest.raises(UserError, match=message):
        read_problems("aime25")


def test_a_table_that_excel_has_saved(folder: Path) -> None:
    path = folder / "aime25.csv"
    write(path, aime25_rows())
    plain = read_problems("aime25")
    path.write_text(path.read_text("utf-8"), "utf-8-sig")
    assert read_problems("aime25") == plain


def test_empty_and_huge_files(folder: Path) -> None:
    path = folder / "aime25.jsonl"
    path.write_bytes(b"")
    with pytest.raises(UserError, match=r"aime25\.jsonl is empty"):
        read_problems("aime25")
    with path.open("wb") as file:
        file.truncate(20_000_001)
    with pytest.raises(UserError, match="20000001 bytes, more than 20000000"):
        read_problems("aime25")


def test_a_missing_file_says_what_to_put_where(folder: Path) -> None:
    with pytest.raises(UserError, match=r"has none of aime24\.jsonl, .*unset \$TIR_MATH_DATA"):
        read_problems("aime24")


def test_two_files_are_one_too_many(folder: Path) -> None:
    write(folder / "aime25.jsonl", aime25_rows())
    write(folder / "aime25.csv", aime25_rows())
    assert not available("aime25")
    with pytest.raises(UserError, match=r"has aime25\.jsonl and aime25\.csv; keep only one"):
        read_problems("aime25")


@pytest.mark.parametrize("named", ["missing", "file", "~nobody-of-this-name/x", "nul\0byte"])
def test_a_folder_that_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    (folder / "file").write_text("")
    value = named if named.startswith("~") else str(folder / named)
    monkeypatch.setattr(os, "environ", {VARIABLE: value})  # The real one rejects null bytes.
    assert not available("aime24")
    with pytest.raises(UserError, match=r"\$TIR_MATH_DATA: "):
        read_problems("aime24")


def test_an_unknown_panel() -> None:
    with pytest.raises(UserError, match="no public panel 'aime42'; did you mean aime2"):
        read_problems("aime42")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, with the hub offline."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def cached_file(cache: Path, name: str) -> Path:
    panel = field_panels()[name]
    repository = "datasets--" + panel.hub_id.replace("/", "--")
    path = cache / repository / "snapshots" / panel.revision / panel.file
    path.parent.mkdir(parents=True)
    return path


def test_offline_without_a_cache_says_what_to_do(cache: Path) -> None:
    assert not available("math500")
    with pytest.raises(UserError) as caught:
        read_problems("math500")
    message = str(caught.value)
    assert "\n" not in message
    assert "`hf download HuggingFaceH4/MATH-500 test.jsonl --repo-type dataset" in message
    assert "--data tir_math=FOLDER" in message
    assert "$TIR_MATH_DATA" in message


@pytest.mark.parametrize("name", ["aime24", "aime25"])
def test_the_hubs_file_is_read_from_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = cached_file(cache, name)
    write(path, ROWS[name]())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    pinned = replace(field_panels()[name], file_sha256=digest)
    monkeypatch.setattr(hub, "_BY_NAME", MappingProxyType({name: pinned}))
    assert available(name)
    assert [entry.data["question"] for entry in read_problems(name)] == [
        row["problem"] for row in ROWS[name]()
    ]


def test_another_file_than_the_pinned_one_is_refused(cache: Path) -> None:
    path = cached_file(cache, "aime25")
    write(path, aime25_rows())
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(UserError, match=f"not the pinned file .SHA-256 {digest[:12]}"):
        read_problems("aime25")


def test_another_revision_in_the_cache_is_not_taken(cache: Path) -> None:
    path = cached_file(cache, "aime25")
    write(path, aime25_rows())
    path.parent.rename(path.parent.with_name("0" * 40))
    assert not available("aime25")
    with pytest.raises(UserError, match="math-ai/aime25 is not on this machine"):
        read_problems("aime25")


def test_the_users_folder_comes_before_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(cached_file(cache, "aime25"), aime25_rows())
    monkeypatch.setenv(VARIABLE, str(cache))
    assert not available("aime25")
    with pytest.raises(UserError, match="has none of"):
        read_problems("aime25")
