"""Tokens in records: everything that an engine can write is accepted."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.engines.core.base import Generation, Sampling
from benchmark.evaluation.records import EpisodeRecord, SequenceRecord, TurnRecord
from benchmark.evaluation.sequences import token_sequence
from benchmark.evaluation.summarize import summarize
from benchmark.submissions.checks.records import check_records
from benchmark.submissions.reading.entry import ReadRun
from tests.support.runs.factories import TASKS, make_manifest, make_protocol, make_record, make_turn


def run_of(
    records: Sequence[EpisodeRecord], context: Any = None, sampling: Sampling | None = None
) -> ReadRun:
    manifest = make_manifest(make_protocol(sampling=sampling or Sampling()))
    facts = {} if context is None else {"context": context}
    manifest = manifest.model_copy(update={"engine": {**manifest.engine, **facts}})
    return ReadRun("runs/r0", manifest, tuple(records), summarize(manifest, records, TASKS))


def problems(run: ReadRun) -> list[str]:
    return [finding.problem for finding in check_records(run, 1)]


def turn(response: str = "a", log_prob: float = -0.5, **counts: Any) -> TurnRecord:
    counts = {"prompt_tokens": 100, "response_tokens": 10, **counts}
    return make_turn(response, **counts).model_copy(update={"log_prob": log_prob})


def played(*turns: TurnRecord) -> list[EpisodeRecord]:
    return [make_record(turns=turns)]


@pytest.mark.parametrize(
    ("response", "tokens", "refused"),
    [
        ("x" * 128, 1, False),
        ("x" * 129, 1, True),
        ("x" * 256, 2, False),
        (" " * 5_000, 1, False),
        ("-" * 5_000, 1, False),
        ("", 1, False),
    ],
)
def test_letters_need_tokens(response: str, tokens: int, refused: bool) -> None:
    """Whitespace and rules of any length can be a single token."""
    found = problems(run_of(played(turn(response, response_tokens=tokens))))
    assert found == ([f"response_tokens {tokens} is too few for 129 letters"] if refused else [])


def test_prompt_and_response_fit_into_the_context() -> None:
    assert problems(run_of(played(turn(prompt_tokens=90)), context=100)) == []
    refused = ["prompt and response have 101 tokens, but the model's context is 100"]
    assert problems(run_of(played(turn(prompt_tokens=91)), context=100)) == refused
    # A context that is not a number is ignored.
    assert problems(run_of(played(turn(prompt_tokens=10**6)), context="100")) == []
    assert len(problems(run_of(played(turn(prompt_tokens=2**24))))) == 1


def test_the_most_probable_of_a_million_tokens_is_not_less_probable_than_the_others() -> None:
    least = -14.0 * 10
    assert problems(run_of(played(turn(log_prob=least)))) == []
    refused = ["log_prob -140.1 does not match greedy tokens"]
    assert problems(run_of(played(turn(log_prob=-140.1)))) == refused
    # Sampled tokens can be improbable.
    assert problems(run_of(played(turn(log_prob=-140.1)), sampling=Sampling(temperature=1.0))) == []


def test_a_few_answers_can_be_certain_and_many_different_ones_cannot() -> None:
    answers = [turn(f"answer {number}", log_prob=0.0) for number in range(20)]
    assert problems(run_of(played(*answers[:19]))) == []
    assert problems(run_of(played(*answers[:19] * 5))) == []
    refused = ["20 of 20 different answers have the probability 1, or nearly so"]
    assert problems(run_of(played(*answers))) == refused
    cut = [each.model_copy(update={"finish_reason": "length"}) for each in answers]
    assert problems(run_of(played(*cut))) == refused
    drawn = [turn(f"drawn {number}", log_prob=-0.1 * number - 0.1) for number in range(3)]
    assert len(problems(run_of(played(*answers, *drawn[:2])))) == 1
    assert problems(run_of(played(*answers, *drawn))) == []


@pytest.mark.parametrize("value", [-1e-7, -5e-5, -0.4, -2.0, -2.0000001])
def test_different_answers_do_not_all_have_one_log_probability(value: float) -> None:
    answers = [turn(f"answer {number}", log_prob=value) for number in range(20)]
    (problem,) = problems(run_of(played(*answers)))
    assert problem.startswith("20 of 20 different answers have the ")


def test_the_mean_answer_has_more_tokens_than_its_longest_possible_tokens() -> None:
    def answers(letters: int) -> list[EpisodeRecord]:
        texts = [f"{number:02}" + "x" * (letters - 2) for number in range(20)]
        return played(
            *(turn(t, response_tokens=1, log_prob=-0.1 * n) for n, t in enumerate(texts, 1))
        )

    assert problems(run_of(answers(32))) == []
    assert problems(run_of(answers(33))) == ["20 answers have 660 letters and 20 tokens"]


def episode(generations: Sequence[Generation]) -> EpisodeRecord:
    """The part of an episode's tokens that a record stores."""
    joined = token_sequence(generations)
    assert joined is not None
    turns = [
        turn(
            prompt_tokens=len(generation.prompt_ids or ()),
            response_tokens=len(generation.response_ids or ()),
        )
        for generation in generations
    ]
    sequence = SequenceRecord(token_ids=joined.token_ids, written=joined.written)
    return make_record(turns=turns).model_copy(update={"sequence": sequence})


def generated(prompt: Sequence[int], response: Sequence[int]) -> Generation:
    return Generation(
        text="a",
        prompt_tokens=len(prompt),
        response_tokens=len(response),
        finish_reason="stop",
        prompt_ids=tuple(prompt),
        response_ids=tuple(response),
    )


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 3), max_size=3),
            st.lists(st.integers(0, 3), min_size=1, max_size=4),
            st.integers(0, 4),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_sequence_as_it_is_joined_is_never_refused(
    steps: list[tuple[list[int], list[int], int]],
) -> None:
    """Each prompt continues with the stored part of the response and the environment's answer."""
    prompt, generations = [9], []
    for answer, response, kept in steps:
        generations.append(generated(prompt, response))
        prompt = [*prompt, *response[:kept], *answer, 9]
    assert problems(run_of([episode(generations)])) == []


def test_a_sequence_says_what_its_turns_say() -> None:
    whole = episode([generated([1, 2], [3, 4]), generated([1, 2, 3, 4, 5], [6, 7, 8])])
    assert whole.sequence is not None
    assert whole.sequence.written == ((2, 4), (5, 8))

    def written(*ranges: tuple[int, int]) -> list[str]:
        assert whole.sequence is not None
        changed = whole.sequence.model_copy(update={"written": ranges})
        return problems(run_of([whole.model_copy(update={"sequence": changed})]))

    assert written((2, 4), (5, 8)) == []
    assert written((2, 3), (5, 8)) == []
    assert written((5, 8)) == []
    assert written((2, 5), (5, 8)) == ["sequence.written: 2 to 5 is not the response of any turn"]
    assert written((3, 4), (5, 8)) == ["sequence.written: 3 to 4 is not the response of any turn"]
    last = "sequence.written: the last response is 5 to 8, and is missing"
    assert written((2, 4), (5, 7)) == [last]
    assert written((2, 4)) == [last]
