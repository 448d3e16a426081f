"""What records say of tokens and answers that no world can confirm, held against itself.

A replay proves actions and rewards, not which words came before them. A scripted policy is asked
again, so that its answers are proven to the last letter. Of a model only this can be seen without
its weights: that log-probabilities are there and can be some, and that one text has one length.
Who changes texts, lengths and log-probabilities together is seen by `arlarena-bench audit` alone.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from benchmark.hosts.choose import spread
from benchmark.records import TurnRecord
from benchmark.replay import installed_panel
from benchmark.submissions.entry import REMAKE, ReadRun
from benchmark.submissions.findings import Finding
from benchmark.submissions.policy_answers import Asked, first_other_answer

POSITIVE = 1e-3
"""Largest sum of log-probabilities that rounding can make of zero."""
ODD_SHARE = 0.1
"""Of the answers that are given more than once: more than that with another number of tokens than
the same text has elsewhere were shortened. Models hardly ever spell one text in two ways."""
FEWEST = 20
"""Answers that must be given more than once before anything is said of their lengths."""
IN_PROCESS = "evaluate the weights in process (--model DIR or OWNER/NAME, without --endpoint)"


def check_records(run: ReadRun, env_processes: int | None) -> Iterator[Finding]:
    """Look at everything in the records of a run that its replay takes as given.

    Args:
        run: The run; its panels are the installed ones and it was replayed.
        env_processes: See `benchmark.replay.replay_run`.
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
    answers = spread(first_other_answer, calls, env_processes)
    for record, other in zip(played, answers, strict=True):
        where = "/".join(map(str, record.key))
        if other is not None:
            problem = f"turn {other}: the policy {policy} answers otherwise"
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
    longest = {(p.task, p.panel): p.sampling.max_tokens for p in run.manifest.panels}
    for record in run.records:
        for number, turn in enumerate(record.turns, 1):
            problem = _token_fault(turn, longest[record.task, record.panel])
            if problem is not None:
                where = f"{'/'.join(map(str, record.key))}, turn {number}"
                yield Finding(name, where, problem, IN_PROCESS)
                return
    lengths: defaultdict[str, Counter[int | None]] = defaultdict(Counter)
    for record in run.records:
        for turn in record.turns:
            if turn.finish_reason == "stop" and turn.response.strip():
                lengths[turn.response][turn.response_tokens] += 1
    again = {text: counts for text, counts in lengths.items() if counts.total() > 1}
    odd = sum(counts.total() - max(counts.values()) for counts in again.values())
    total = sum(counts.total() for counts in again.values())
    if total >= FEWEST and odd > ODD_SHARE * total:
        problem = f"{odd} of {total} answers have another number of tokens than the same text has"
        yield Finding(name, "response_tokens", problem, REMAKE)


def _token_fault(turn: TurnRecord, longest: int) -> str | None:
    if turn.log_prob is None or turn.prompt_tokens is None or turn.response_tokens is None:
        return "log_prob or a number of tokens is missing"
    if turn.log_prob > POSITIVE:
        return f"log_prob {turn.log_prob} is that of no probability"
    if not 1 <= turn.response_tokens <= longest:
        return f"response_tokens {turn.response_tokens} is not within 1 and {longest}"
    if turn.prompt_tokens < 1:
        return f"prompt_tokens {turn.prompt_tokens} is less than 1"
    return None
