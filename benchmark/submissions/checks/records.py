"""Checks tokens and responses in records, which no environment can confirm, for consistency.

A replay verifies actions and rewards, not the text before them. A scripted policy is queried again,
so its responses are verified completely. For a model, only the following can be checked without its
weights: log-probabilities exist and are possible, equal texts have equal lengths, and token counts
are within the bounds of any vocabulary and of the model's context. Consistent changes of texts,
lengths and log-probabilities are only detected by `arlarena-bench audit`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from benchmark.engines.core.base import Sampling
from benchmark.evaluation.records import EpisodeRecord, TurnRecord
from benchmark.evaluation.replay import installed_panel
from benchmark.hosts.choose import parallel_map
from benchmark.hosts.policy_answers import Asked, first_other_answer
from benchmark.submissions.checks.accepted_entries import SURE
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.reading.entry import REMAKE, ReadRun
from benchmark.submissions.training_logs.likeness import first_digits

POSITIVE = 1e-3
"""Maximum sum of log-probabilities, positive because of rounding errors."""
ODD_SHARE = 0.1
"""Maximum share of repeated responses with a token count that differs from that of the same text
elsewhere. Models hardly ever tokenize one text in two ways, so more indicate shortened texts."""
FEWEST = 20
"""Minimum number of repeated responses to check their lengths."""
MAX_CONTEXT = 2**24
"""Maximum tokens of prompt and response, if the engine does not state its model's context."""
LETTERS = 128
"""Maximum letters and digits of one token: vocabularies have tokens of 64, and hardly any longer
ones."""
MEAN_LETTERS = 32
"""The same, as a mean over distinct responses."""
LEAST_GREEDY = -14.0
"""Log-probability of the most probable of a million tokens, if all are equally probable."""
CERTAIN_SHARE = 0.9
"""Maximum share of distinct responses with the same log-probability, or with almost certain tokens;
no model samples more of these."""
_Answer = tuple[str, str]
"""Text and finish reason of a response."""
IN_PROCESS = "evaluate the weights in process (--model DIR or OWNER/NAME, without --endpoint)"


def check_records(run: ReadRun, env_processes: int | None) -> Iterator[Finding]:
    """Check everything in a run's records that its replay takes as given.

    Args:
        run: A replayed run on installed panels.
        env_processes: See `benchmark.evaluation.replay.replay_run`.
    """
    if run.manifest.model.kind == "policy":
        yield from _check_policy(run, env_processes)
    else:
        yield from _check_tokens(run)


def _check_policy(run: ReadRun, env_processes: int | None) -> Iterator[Finding]:
    name, policy = f"{run.path}/episodes.jsonl.zst", run.manifest.model.name
    panels = {}
    for protocol in run.manifest.panels:
        task, panel = installed_panel(protocol)
        entries = {entry.id: entry for entry in panel.entries}
        panels[protocol.task, protocol.panel] = protocol, task, entries
    calls = []
    played = [record for record in run.records if record.turns]
    for record in played:
        protocol, task, entries = panels[record.task, record.panel]
        asked = Asked(
            policy,
            tuple(
                protocol.turn_seed(record.episode, record.repeat, number)
                for number in range(len(record.turns))
            ),
            tuple((turn.response, turn.info) for turn in record.turns),
        )
        calls.append((task, (entries[record.episode], protocol.max_turns, asked)))
    answers = parallel_map(first_other_answer, calls, env_processes)
    for record, other in zip(played, answers, strict=True):
        where = "/".join(map(str, record.key))
        if other is not None:
            problem = f"turn {other}: the policy {policy} gives another answer"
            yield Finding(name, where, problem, REMAKE)
            return
        if any(_counted(turn) for turn in record.turns) or record.sequence is not None:
            yield Finding(name, where, "a policy has no tokens", REMAKE)
            return


def _counted(turn: TurnRecord) -> bool:
    numbers = (turn.log_prob, turn.prompt_tokens, turn.response_tokens)
    return turn.finish_reason != "stop" or any(number is not None for number in numbers)


def _check_tokens(run: ReadRun) -> Iterator[Finding]:
    name = f"{run.path}/episodes.jsonl.zst"
    sampled = {(p.task, p.panel): p.sampling for p in run.manifest.panels}
    stated = run.manifest.engine.get("context")
    context = stated if type(stated) is int else MAX_CONTEXT
    for record in run.records:
        sampling = sampled[record.task, record.panel]
        for number, turn in enumerate(record.turns, 1):
            problem = _token_fault(turn, sampling, context)
            if problem is not None:
                where = f"{'/'.join(map(str, record.key))}, turn {number}"
                yield Finding(name, where, problem, IN_PROCESS)
                return
        if (problem := _sequence_fault(record)) is not None:
            yield Finding(name, "/".join(map(str, record.key)), problem, REMAKE)
            return
    yield from _check_lengths(run, name)


def _token_fault(turn: TurnRecord, sampling: Sampling, context: int) -> str | None:
    """Describe impossible numbers of a turn; None if there are none."""
    if turn.log_prob is None or turn.prompt_tokens is None or turn.response_tokens is None:
        return "log_prob or a number of tokens is missing"
    if turn.log_prob > POSITIVE:
        return f"log_prob {turn.log_prob} does not correspond to a probability"
    if not 1 <= turn.response_tokens <= sampling.max_tokens:
        return f"response_tokens {turn.response_tokens} is not from 1 to {sampling.max_tokens}"
    if turn.prompt_tokens < 1:
        return f"prompt_tokens {turn.prompt_tokens} is less than 1"
    if turn.prompt_tokens + turn.response_tokens > context:
        tokens = turn.prompt_tokens + turn.response_tokens
        return f"prompt and response have {tokens} tokens, but the model's context is {context}"
    if (letters := _letters(turn.response)) > LETTERS * turn.response_tokens:
        return f"response_tokens {turn.response_tokens} is too few for {letters} letters"
    if sampling.temperature == 0 and turn.log_prob < LEAST_GREEDY * turn.response_tokens:
        return f"log_prob {turn.log_prob} does not match greedy tokens"
    return None


def _letters(text: str) -> int:
    """Number of letters and digits; whitespace and rules can be very long tokens."""
    return sum(map(str.isalnum, text))


def _sequence_fault(record: EpisodeRecord) -> str | None:
    """Describe how a token sequence contradicts the turns; None if it does not."""
    if record.sequence is None or not record.turns:
        return None
    drawn = {turn.prompt_tokens: turn.response_tokens or 0 for turn in record.turns}
    written = record.sequence.written
    for start, stop in written:
        if stop - start > drawn.get(start, 0):
            return f"sequence.written: {start} to {stop} is not the response of any turn"
    last = record.turns[-1]
    end = (last.prompt_tokens, len(record.sequence.token_ids))
    if end not in written:
        return f"sequence.written: the last response is {end[0]} to {end[1]}, and is missing"
    return None


def _check_lengths(run: ReadRun, name: str) -> Iterator[Finding]:
    """Check all responses together; truncated ones differ from the same text that ended."""
    lengths: defaultdict[_Answer, Counter[int]] = defaultdict(Counter)
    log_probs: dict[_Answer, float] = {}
    for record in run.records:
        for turn in record.turns:
            if turn.response.strip():
                answer = turn.response, turn.finish_reason
                lengths[answer][turn.response_tokens or 0] += 1
                log_probs.setdefault(answer, turn.log_prob or 0.0)
    again = [counts for counts in lengths.values() if counts.total() > 1]
    odd = sum(counts.total() - max(counts.values()) for counts in again)
    total = sum(counts.total() for counts in again)
    if total >= FEWEST and odd > ODD_SHARE * total:
        problem = (
            f"{odd} of {total} answers have a token count that differs from that of the same text"
        )
        yield Finding(name, "response_tokens", problem, REMAKE)
    if len(lengths) < FEWEST:
        return
    letters = sum(_letters(text) for text, _ in lengths)
    tokens = sum(map(max, lengths.values()))
    if letters > MEAN_LETTERS * tokens:
        problem = f"{len(lengths)} answers have {letters} letters and {tokens} tokens"
        yield Finding(name, "response_tokens", problem, REMAKE)
    sure = sum(value > -SURE for value in log_probs.values())
    if sure > CERTAIN_SHARE * len(lengths):
        problem = f"{sure} of {len(lengths)} different answers have the probability 1, or nearly so"
        yield Finding(name, "log_prob", problem, IN_PROCESS)
        return
    ((value, count),) = Counter(map(first_digits, log_probs.values())).most_common(1)
    if count > CERTAIN_SHARE * len(lengths):
        problem = f"{count} of {len(lengths)} different answers have the log-probability {value}"
        yield Finding(name, "log_prob", problem, IN_PROCESS)
