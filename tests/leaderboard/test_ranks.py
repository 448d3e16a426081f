"""Ranks are ranges."""

from hypothesis import given
from hypothesis import strategies as st

from leaderboard.data import Board
from leaderboard.ranks import Rank, rank_groups, ranks
from tests.board_rows import PROTOCOL, board_row
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first


def board_with(boards: Boards, **solved: int) -> Board:
    """Entries by name, which have solved so many of Sokoban's 100 episodes."""
    rows = [
        board_row(f"2026010{number}_{name}", {SOKOBAN: [first(count)]})
        for number, (name, count) in enumerate(solved.items(), 1)
    ]
    return boards(*rows)


def by_name(found: dict[str, Rank]) -> dict[str, tuple[int, int]]:
    return {entry.partition("_")[2] or entry: (r.first, r.last) for entry, r in found.items()}


def test_groups_by_hand() -> None:
    # .90 .88 .80 .79 .50, and what is less than .1 apart is a tie.
    scores = {"a": 0.90, "b": 0.88, "c": 0.80, "d": 0.79, "e": 0.50}

    def differ(leader: str, entry: str) -> bool:
        return scores[leader] - scores[entry] >= 0.0999

    found = rank_groups(list(scores.items()), differ)
    assert by_name(found) == {"a": (1, 2), "b": (1, 2), "c": (3, 4), "d": (3, 4), "e": (5, 5)}
    assert [found[name].leader for name in "abcde"] == ["a", "a", "c", "c", "e"]
    assert (found["a"].tied, found["e"].tied) == (True, False)


def test_a_group_ends_with_the_first_that_differs() -> None:
    # c cannot be told from the leader, but it stands behind b, which can.
    scores = [("a", 0.9), ("b", 0.8), ("c", 0.7)]
    found = rank_groups(scores, lambda leader, entry: (leader, entry) == ("a", "b"))
    assert by_name(found) == {"a": (1, 1), "b": (2, 3), "c": (2, 3)}


def test_of_equals_the_oldest_leads() -> None:
    found = rank_groups([("b", 0.5), ("a", 0.5)], lambda leader, entry: False)
    assert found["b"] == Rank(1, 2, "a")


@given(
    st.dictionaries(st.text("abc", min_size=1), st.floats(0, 1), max_size=12),
    st.floats(0, 0.5),
)
def test_ranges_cover_the_places(scores: dict[str, float], apart: float) -> None:
    found = rank_groups(
        list(scores.items()), lambda leader, entry: scores[leader] - scores[entry] > apart
    )
    groups = {(rank.first, rank.last): rank.leader for rank in found.values()}
    places = [place for low, high in sorted(groups) for place in range(low, high + 1)]
    assert places == list(range(1, len(scores) + 1))
    for entry, rank in found.items():
        assert scores[rank.leader] - scores[entry] <= apart


def test_ranks_of_a_board(boards: Boards) -> None:
    # 100 against 98 of 100: two episodes. Newcombe's interval of the difference holds 0.
    board = board_with(boards, best=100, near=98, far=70, last=0)
    found = ranks(board, PROTOCOL, (SOKOBAN.key,))
    assert by_name(dict(found)) == {"best": (1, 2), "near": (1, 2), "far": (3, 3), "last": (4, 4)}


def test_policies_have_no_rank(boards: Boards) -> None:
    expert = board_row("20260101_expert", {SOKOBAN: [first(100)]}, kind="policy")
    init = board_row("20260102_init", {SOKOBAN: [first(50)]}, kind="init")
    found = ranks(boards(expert, init), PROTOCOL, (SOKOBAN.key,))
    assert dict(found) == {"20260102_init": Rank(1, 1, "20260102_init")}


def test_a_mean_needs_all_panels(boards: Boards) -> None:
    both = board_row("20260101_both", {SOKOBAN: [first(50)], ALFWORLD: [first(30)]})
    one = board_row("20260102_one", {SOKOBAN: [first(90)]})
    board = boards(both, one)
    assert by_name(dict(ranks(board, PROTOCOL, (SOKOBAN.key, ALFWORLD.key)))) == {"both": (1, 1)}
    assert by_name(dict(ranks(board, PROTOCOL, (SOKOBAN.key,)))) == {"one": (1, 1), "both": (2, 2)}


def test_panels_that_cancel_are_a_tie(boards: Boards) -> None:
    left = board_row("20260101_left", {SOKOBAN: [first(90)], ALFWORLD: [first(10)]})
    right = board_row("20260102_right", {SOKOBAN: [first(11)], ALFWORLD: [first(90)]})
    board = boards(left, right)
    assert by_name(dict(ranks(board, PROTOCOL, (SOKOBAN.key, ALFWORLD.key)))) == {
        "left": (1, 2),
        "right": (1, 2),
    }
    assert by_name(dict(ranks(board, PROTOCOL, (ALFWORLD.key,))))["right"] == (1, 1)
