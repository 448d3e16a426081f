"""Records under another name: seen where log-probabilities say whose they are."""

from pathlib import Path

from benchmark.submissions.check import read_accepted
from benchmark.submissions.copies import check_copies
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies
from tests.submissions import Copy, Json, check


def renamed(copy: Copy) -> None:
    """Gives both seeds' weights other hashes."""
    hashes = [sha256_text(f"stolen {seed}") for seed in (0, 1)]

    def change(about: Json) -> None:
        for point, digest in zip(about["checkpoints"], hashes, strict=True):
            point["model"]["sha256"] = digest

    copy.about(change)
    copy.manifest(lambda run: run["model"].update(sha256=hashes[0]), "runs/r0")
    copy.manifest(lambda run: run["model"].update(sha256=hashes[1]), "runs/r1")


def test_records_of_another_submission_under_a_new_name(copies: Copies, trained: Path) -> None:
    other = read_accepted(trained)
    copy = copies("trained")
    renamed(copy)
    assert check(copy.folder).accepted
    verdict = check(copy.folder, [other])
    problem = "256 of 256 episodes have the answers and log-probabilities of 20260102_trained/runs/"
    assert [finding.problem[: len(problem)] for finding in verdict.findings] == [problem] * 2


def test_half_of_the_records_may_be_alike_and_not_more(copies: Copies, trained: Path) -> None:
    other = read_accepted(trained)
    copy = copies("trained")
    renamed(copy)

    def shift(first: int, last: int) -> None:
        def change(records: list[Json]) -> None:
            for record in records[first:last]:
                record["turns"][0]["log_prob"] -= 0.5

        for run in ("runs/r0", "runs/r1"):
            copy.records(change, run)

    shift(0, 127)
    problems = [finding.problem for finding in check_copies(read_accepted(copy.folder), [other])]
    assert [problem.partition(" episodes")[0] for problem in problems] == ["129 of 256"] * 2
    shift(127, 128)
    assert check_copies(read_accepted(copy.folder), [other]) == []


def test_the_same_weights_may_be_sent_again(trained: Path) -> None:
    entry = read_accepted(trained)
    assert check_copies(entry, [entry]) == []


def test_policies_are_not_compared(policy: Path) -> None:
    entry = read_accepted(policy)
    assert check_copies(entry, [entry]) == []
