"""Every row is put into exactly one micro-batch, with nothing but padding added."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from baselines.learning.microbatches import (
    LEAST_PREFIX,
    LEAST_ROWS,
    PaddedBatch,
    collate,
    filler,
    pack_rows,
    split,
)
from baselines.rollouts.rows import Row
from tests.support.training.synthetic_rows import random_rows


def row(prompt: list[int], response: list[int], task: str = "sokoban") -> Row:
    like = random_rows(1)[0]
    return replace(
        like,
        task=task,
        prompt_ids=np.array(prompt, np.int32),
        response_ids=np.array(response, np.int32),
        response_mask=np.ones(len(response), np.int32),
        engine_log_probs=np.zeros(len(response), np.float32),
    )


def text(batch: PaddedBatch, place: int) -> tuple[list[int], list[int]]:
    """Prompt and response of a row, as stored in a micro-batch."""
    start, prefix = int(batch.starts[place]), batch.prefix_ids.tolist()
    tokens = batch.input_ids[place].tolist()
    return prefix + tokens[:start], tokens[start:]


def assert_holds(batch: PaddedBatch, rows: list[Row]) -> None:
    """Check that the micro-batch contains every row unchanged, followed by zeros."""
    for place, number in enumerate(batch.rows):
        own = rows[number]
        prompt, response = text(batch, place)
        length = len(own.response_ids)
        assert prompt == own.prompt_ids.tolist()
        assert response[:length] == own.response_ids.tolist()
        assert not any(response[length:])
        mask = batch.response_mask[place].tolist()
        assert mask[:length] == own.response_mask.tolist()
        assert not any(mask[length:])


def test_rows_are_padded_on_the_right_and_their_responses_lined_up() -> None:
    rows = [row([1, 2, 3], [4]), row([5], [6, 7, 8, 9]), row([1, 2], [3, 4])]
    batch = collate(rows, [2, 0, 1], share_prefix=True)
    assert batch.rows == (2, 0, 1)
    assert batch.input_ids.tolist() == [[1, 2, 3, 4, 0], [1, 2, 3, 4, 0], [5, 6, 7, 8, 9]]
    assert batch.starts.tolist() == [2, 3, 1]
    assert batch.response_mask.tolist() == [[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]
    assert batch.max_response == 4
    assert batch.prefix_ids.shape == (0,)


def test_a_shared_beginning_is_taken_out_but_never_all_of_a_prompt() -> None:
    begin = list(range(1, LEAST_PREFIX + 1))
    # The shortest prompt is the shared beginning plus one token.
    prompts = [[*begin, 50], [*begin, 50], [*begin, 50, 51, 52], [*begin, 50, 51]]
    rows = [row(prompt, [60 + i, 70]) for i, prompt in enumerate(prompts)]
    batch = collate(rows, range(LEAST_ROWS), share_prefix=True)
    assert batch.prefix_ids.tolist() == begin
    assert batch.starts.tolist() == [1, 1, 3, 2]
    assert batch.input_ids.shape == (4, 5)
    assert_holds(batch, rows)
    assert collate(rows, range(LEAST_ROWS), share_prefix=False).prefix_ids.shape == (0,)
    # If a prompt equals the shared beginning, its last token stays, to predict the response.
    whole = [row(begin, [1]), *rows]
    assert len(collate(whole, range(5), share_prefix=True).prefix_ids) == 0
    longer = [row([*begin, 40], [1])] * 4
    assert collate(longer, range(4), share_prefix=True).starts.tolist() == [1] * 4


def test_a_short_beginning_or_few_rows_are_left_alone() -> None:
    begin = list(range(1, LEAST_PREFIX + 1))
    few = [row([*begin, 50, i], [1]) for i in range(LEAST_ROWS)]
    assert len(collate(few, range(LEAST_ROWS - 1), share_prefix=True).prefix_ids) == 0
    assert len(collate(few, range(LEAST_ROWS), share_prefix=True).prefix_ids) == LEAST_PREFIX + 1
    short = [row([*begin[1:], 60 + i, 50], [1]) for i in range(LEAST_ROWS)]
    assert len(collate(short, range(LEAST_ROWS), share_prefix=True).prefix_ids) == 0


lengths = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 8)), min_size=1, max_size=25)


@given(lengths, st.integers(1, 60), st.booleans(), st.integers(0, 2**16))
def test_every_row_goes_into_one_micro_batch_within_the_limit(
    sizes: list[tuple[int, int]], tokens: int, share_prefix: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    tasks = ["alfworld", "sokoban"]
    rows = [
        row(rng.integers(1, 4, p).tolist(), rng.integers(1, 9, r).tolist(), tasks[rng.integers(2)])
        for p, r in sizes
    ]
    chosen = [number for number in range(len(rows)) if rng.random() < 0.8]
    batches = split(rows, chosen, tokens, share_prefix)
    assert sorted(number for batch in batches for number in batch.rows) == chosen
    for batch in batches:
        assert_holds(batch, rows)
        assert len({rows[number].task for number in batch.rows}) == 1
        assert batch.input_ids.numel() <= tokens or len(batch.rows) == 1
        assert int(batch.starts.min()) >= 1


@given(st.integers(0, 2**16), st.integers(1, 400))
def test_sharing_leaves_every_row_as_it_was(seed: int, tokens: int) -> None:
    rows = random_rows(17, seed)
    for batch in split(rows, range(17), tokens, share_prefix=True):
        assert_holds(batch, rows)


def test_rows_of_about_one_length_stand_together() -> None:
    rows = [row([1] * length, [2]) for length in (9, 2, 8, 3, 9, 2)]
    batches = split(rows, range(6), 12, share_prefix=False)
    # Lengths including the response: 3 3 4 | 9 | 10 | 10.
    assert [batch.rows for batch in batches] == [(1, 5, 3), (2,), (0,), (4,)]


def test_a_filler_counts_nothing() -> None:
    rows = random_rows(5)
    batch = filler(rows)
    assert batch.rows == (-1,)
    assert batch.response_mask.shape == (1, len(rows[0].response_ids))
    assert not batch.response_mask.any()
    assert batch.stack([torch.ones(9)] * 5).tolist() == [[0.0] * len(rows[0].response_ids)]


def test_values_of_rows_are_stacked_in_their_type_with_zeros_behind() -> None:
    rows = [row([1], [2, 3, 4]), row([1], [2]), row([1], [2, 3])]
    batch = collate(rows, [2, 0, 1], share_prefix=False)
    values = [torch.tensor([1.0, 2.0, 3.0]), None, torch.tensor([4.0, 5.0])]
    stacked = batch.stack([None if v is None else v.double() for v in values])
    assert stacked.dtype == torch.float64
    assert stacked.tolist() == [[4, 5, 0], [1, 2, 3], [0, 0, 0]]
    assert batch.stack([None] * 3).tolist() == [[0.0] * 3] * 3


def test_packed_rows_say_where_each_drawn_token_is_predicted() -> None:
    prompt = list(range(1, 21))
    rows = [row(prompt, [30, 31]), row([9], [8]), row(prompt, [40, 41, 42])]
    rows[2] = replace(rows[2], response_mask=np.array([1, 0, 1], np.int32))
    (batch,) = pack_rows(rows, [2, 1, 0], 1_000)
    # Lexicographic order; the two prompts of twenty tokens share sixteen.
    assert batch.ids.tolist() == [
        *range(1, 17),
        *[17, 18, 19, 20, 30, 31],
        *[17, 18, 19, 20, 40, 41, 42],
        *[9, 8],
    ]
    assert batch.positions.tolist() == [*range(16), *range(16, 22), *range(16, 23), 0, 1]
    assert batch.nodes.tolist() == [[0, 16, 29], [16, 22, 22], [22, 29, 29], [29, 31, 31]]
    # Also in lexicographic order: the prompts before 30, 31, then 40, 42, then 8.
    assert batch.rows == (0, 2, 1)
    assert batch.response_mask.tolist() == [[1, 1, 0], [1, 0, 1], [1, 0, 0]]
    assert batch.drawn.tolist() == [30, 31, 40, 42, 8]
    assert batch.before.tolist() == [19, 20, 25, 27, 29]


@given(st.integers(0, 2**16), st.integers(1, 400))
def test_every_row_is_packed_once_within_the_limit(seed: int, tokens: int) -> None:
    rows = random_rows(17, seed)
    chosen = [number for number in range(17) if number % 5]
    batches = pack_rows(rows, chosen, tokens)
    assert sorted(number for batch in batches for number in batch.rows) == chosen
    for batch in batches:
        assert len(batch.ids) <= tokens or len(batch.rows) == 1
        expected = [rows[n].response_ids[rows[n].response_mask > 0].tolist() for n in batch.rows]
        assert batch.drawn.tolist() == [token for tokens in expected for token in tokens]
        assert int(batch.response_mask.sum()) == len(batch.before) == len(batch.drawn)
