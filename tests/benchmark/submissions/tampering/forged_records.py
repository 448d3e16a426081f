"""Forged records: all of their content follows from the task or from other parts."""

import copy
from typing import Any

from tests.benchmark.submissions.few_levels import EPISODES
from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy, Json

RECORDS = "runs/r0/episodes.jsonl.zst"
DEEP = 300


def failure(records: list[Json]) -> Json:
    """The first failed record."""
    return next(record for record in records if not record["success"])


def win(records: list[Json]) -> Json:
    """The first solved record."""
    return next(record for record in records if record["success"])


def edited_reward(copy: Copy) -> None:
    def change(records: list[Json]) -> None:
        failure(records)["turns"][0]["reward"] += 11.0
        failure(records)["reward"] += 11.0

    copy.records(change)


def flipped_success(copy: Copy) -> None:
    copy.records(lambda records: failure(records).update(success=True, score=1.0))


def dropped_failures(copy: Copy) -> None:
    copy.records(lambda records: [record for record in records if record["success"]])


def duplicated_wins(copy: Copy) -> None:
    def change(records: list[Json]) -> list[Json]:
        return [record if record["success"] else win(records) for record in records]

    copy.records(change)


def renamed_wins(forged: Copy) -> None:
    def change(records: list[Json]) -> list[Json]:
        return [
            record
            if record["success"]
            else {**copy.deepcopy(win(records)), "episode": record["episode"]}
            for record in records
        ]

    forged.records(change)


def played_again(copy: Copy) -> None:
    copy.records(lambda records: [*records, {**win(records), "repeat": 1}])


def training_level(copy: Copy) -> None:
    copy.records(lambda records: win(records).update(episode="train-0-0"))


def other_panel(copy: Copy) -> None:
    copy.records(lambda records: win(records).update(panel="two_boxes"))


def win_called_error(copy: Copy) -> None:
    copy.records(lambda records: failure(records).update(error="EngineError: it was not me"))


def failures_called_errors(copy: Copy) -> None:
    """As an evaluation records episodes that a server did not answer, with a matching summary."""

    def change(records: list[Json]) -> None:
        for record in records:
            if not record["success"]:
                record.update(turns=[], error="EngineError: no answer", success=False)

    copy.records(change)


def cut_short(copy: Copy) -> None:
    def change(records: list[Json]) -> None:
        failure(records)["turns"].pop()

    copy.records(change)


def shortened_think(copy: Copy) -> None:
    def change(records: list[Json]) -> None:
        for turn in (turn for record in records for turn in record["turns"]):
            turn["response"] = "<think></think>" + turn["response"].partition("</think>")[2]

    copy.records(change)


def other_word(copy: Copy) -> None:
    def change(records: list[Json]) -> None:
        turn = records[7]["turns"][1]
        turn["response"] = turn["response"].replace("<think>", "<think>Well, ", 1)

    copy.records(change)


def turn(**changes: Any) -> Any:
    """Change the second turn of the first record."""
    return lambda copy: copy.records(lambda records: records[0]["turns"][1].update(changes))


def record(**changes: Any) -> Any:
    """Change the first record."""
    return lambda copy: copy.records(lambda records: records[0].update(changes))


def every_turn(**changes: Any) -> Any:
    """Change all turns."""

    def change(records: list[Json]) -> None:
        for turn in (turn for record in records for turn in record["turns"]):
            turn.update(changes)

    return lambda copy: copy.records(change)


def one_token(copy: Copy) -> None:
    """Every answer is one token long, with probability 1."""
    every_turn(response_tokens=1, log_prob=0.0)(copy)


def long_answer_of_one_token(copy: Copy) -> None:
    def change(records: list[Json]) -> None:
        turn = records[0]["turns"][1]
        _, action = turn["response"].split("</think>")
        turn.update(response=f"<think>{'so ' * 99}</think>{action}", response_tokens=1)

    copy.records(change)


def certain(copy: Copy) -> None:
    every_turn(log_prob=0.0)(copy)


def text(old: bytes, new: bytes) -> Any:
    """Replace the first occurrence of a text in the file."""

    def change(copy: Copy) -> None:
        content = copy.read(RECORDS)
        assert old in content
        copy.write(RECORDS, content.replace(old, new, 1))

    return change


def deep(copy: Copy) -> None:
    copy.records(lambda records: records[0]["turns"][0].update(info={"x": nested(DEEP)}))


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth else []


FORGERIES = [
    Forgery("edited reward", "trained", edited_reward, "turn 1, reward: recorded"),
    Forgery("flipped success", "trained", flipped_success, "recorded True, replayed False"),
    Forgery("dropped failures", "trained", dropped_failures, "6 of 24 episodes are missing"),
    Forgery("duplicated wins", "trained", duplicated_wins, "appears twice"),
    Forgery(
        "wins under names of failures",
        "trained",
        renamed_wins,
        "does not match: episode, category: ",
    ),
    Forgery("a win played again", "trained", played_again, "repeat 1: the run does not play it"),
    Forgery(
        "a training level",
        "trained",
        training_level,
        "1 episodes are not in the panel, the first is (",
    ),
    Forgery("an episode of another panel", "trained", other_panel, "the run does not play it"),
    Forgery("a failure called an error", "trained", win_called_error, "ended without an error'"),
    Forgery(
        "failures called errors",
        "trained",
        failures_called_errors,
        f"of {EPISODES} episodes ended in errors; run it again",
    ),
    Forgery(
        "a failure cut short",
        "trained",
        cut_short,
        "outcome: recorded 'the episode ended'",
    ),
    Forgery("edited score", "trained", record(score=1.0), "score: recorded 1.0, replayed -"),
    Forgery("penalty left out", "policy", record(penalty=0.5), "penalty: recorded 0.5, replayed 0"),
    Forgery("other category", "policy", record(category="14"), "category: recorded '14'"),
    Forgery("other prompt shown", "policy", turn(prompt_hash="0" * 16), "turn 2, prompt_hash:"),
    Forgery("other world shown", "policy", turn(observation_hash="0" * 16), "2, observation_"),
    Forgery("edited action", "policy", turn(action="jump"), "turn 2, action: recorded 'jump'"),
    Forgery("invalid called valid", "policy", turn(action_ok=False), "turn 2, action_ok: recorded"),
    Forgery("edited info", "policy", turn(info={"x": 1}), "turn 2, info: recorded"),
    Forgery(
        "policy, shortened think text", "policy", shortened_think, "policy expert gives another"
    ),
    Forgery("policy, one other word", "policy", other_word, "turn 2: the policy expert "),
    Forgery("policy with tokens", "policy", every_turn(log_prob=-1.0), "a policy has no tokens"),
    Forgery("shortened think text", "trained", shortened_think, "a token count that differs from"),
    Forgery("no log-probabilities", "trained", every_turn(log_prob=None), "log_prob or a number "),
    Forgery(
        "certain beyond all doubt", "trained", turn(log_prob=1.5), "log_prob 1.5 does not corr"
    ),
    Forgery("beyond the token limit", "trained", turn(response_tokens=513), "not from 1 to 512"),
    Forgery("no prompt", "trained", turn(prompt_tokens=0), "prompt_tokens 0 is less than 1"),
    Forgery("one token each", "trained", one_token, "68 answers have 3260 letters and 68 tokens"),
    Forgery("certain of everything", "trained", certain, "answers have the probability 1"),
    Forgery(
        "long answer of one token",
        "trained",
        long_answer_of_one_token,
        "turn 2: response_tokens 1 is too few for 2",
    ),
    Forgery("endless prompt", "trained", turn(prompt_tokens=10**12), "the model's context is 1677"),
    Forgery(
        "improbable", "trained", turn(log_prob=-1e6), "log_prob -1000000.0 does not match greedy"
    ),
    Forgery(
        "many values",
        "policy",
        turn(info={"x": [[]] * 1000}),
        "turns.1.info: Value error, more than 1000 values",
    ),
    Forgery(
        "long value", "policy", turn(info={"x": "x" * 70_000}), "info: Value error, longer than 65"
    ),
    Forgery(
        "long record",
        "policy",
        turn(response="x" * 5 * 2**20),
        f"{RECORDS}, line 1: is longer than 4,194,304 bytes",
    ),
    Forgery("NaN", "policy", turn(reward=float("nan")), "turns.1.reward: Input should be a finite"),
    Forgery("infinity", "policy", record(reward=float("inf")), "reward: Input should be a finite"),
    Forgery("1e308", "policy", record(score=1e308), "score: Input should be less than"),
    Forgery("negative count", "trained", turn(response_tokens=-1), "response_tokens: Input "),
    Forgery("bool for number", "policy", record(repeat=False), "repeat: Input should be a valid"),
    Forgery("old records", "policy", record(schema_version=1), "older than this version"),
    Forgery("extra field of a turn", "policy", turn(bonus=1), "turns.1.bonus: Extra inputs"),
    Forgery(
        "twin fields",
        "policy",
        text(b'"success":true', b'"success":false,"success":true'),
        f"{RECORDS}, line 1: a field appears twice",
    ),
    Forgery(
        "invalid UTF-8", "policy", text(b"<think>", b"<think>\xff\xfe"), "line 1: not a record: "
    ),
    Forgery("deep JSON", "policy", deep, "not a record: Invalid JSON: recursion limit exceeded"),
    Forgery(
        "no last line break",
        "policy",
        lambda c: c.write(RECORDS, c.read(RECORDS)[:-1]),
        f"line {EPISODES}: is incomplete",
    ),
    Forgery("no records", "policy", lambda c: c.records(lambda _: []), "24 of 24 episodes"),
]
