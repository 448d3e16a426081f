"""`arlarena-bench audit`: score recorded responses under the claimed weights."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.cli.from_baselines import find_model
from benchmark.cli.say import say
from benchmark.models import ModelIdentity, same_weights
from benchmark.stats.formatting import percent_text
from benchmark.submissions.check import read_accepted
from tasks.errors import UserError
from tasks.texts import on_one_line

if TYPE_CHECKING:
    from benchmark.submissions.audit import EpisodeAudit


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    entry = read_accepted(Path(arguments.folder))
    source = find_model(arguments.model)
    if source.path is None:
        raise UserError(
            f"--model {arguments.model}: an audit needs the model's weights; give an init, "
            "a folder or a hub id"
        )
    named = [
        point
        for point in entry.checkpoints
        if _same_weights(point.checkpoint.model, source.identity)
    ]
    if not named and not arguments.any_weights:
        raise UserError(
            f"{arguments.model} is not a checkpoint of the submission; use "
            "--any-weights to score the records of all its checkpoints anyway"
        )
    import torch

    from benchmark.engines.core.chat import Chat
    from benchmark.engines.transformers.engine import load_model
    from benchmark.submissions.audit import EVIDENCE, audit_run, evidence_of, too_many_unscored

    device = "cuda" if torch.cuda.is_available() else "cpu"
    chat = Chat.load(source.path)
    model = load_model(source.path, arguments.dtype, device)
    audits: list[EpisodeAudit] = []
    for point in named or entry.checkpoints:
        for read in point.runs:
            for audit in audit_run(read, model, chat, arguments.episodes, arguments.seed):
                audits.append(audit)
                if not audit.credible:
                    name = "/".join(map(str, audit.key))
                    say(on_one_line(f"{name}: {'; '.join(_objections(audit))}"))
    flagged = sum(not audit.credible for audit in audits)
    evidence = evidence_of(audits) or 0.0
    if unlikely := evidence >= EVIDENCE:
        say(f"all sampled tokens together are unlikely (evidence {evidence:.1f} nats)")
    unscored = sum(audit.unscored for audit in audits)
    if hidden := too_many_unscored(audits):
        say("too many turns have token counts that do not match their texts")
    turns = sum(audit.turns for audit in audits)
    say(
        f"{len(audits)} episodes scored under {source.identity.text}: {flagged} not "
        f"plausible, {unscored} of {turns} turns not scored"
    )
    return 1 if flagged or unlikely or hidden else 0


def _same_weights(sent: ModelIdentity, given: ModelIdentity) -> bool:
    """Whether two identities are of the same files, by their hash or their commit on the hub."""
    known = sent.sha256 is not None or sent.revision is not None
    return known and same_weights(sent, given)


def _objections(audit: "EpisodeAudit") -> Iterator[str]:
    """Yield the objections to an episode."""
    if not audit.of_its_text:
        yield "the recorded tokens do not match the texts"
    if audit.far > audit.tolerance.far:
        far = percent_text(audit.far)
        yield f"{far} of {audit.tokens} tokens could not come from these weights"
    elif not audit.plausible:
        yield (f"{audit.tokens} tokens are unlikely samples (evidence {audit.evidence:.1f} nats)")
    if not audit.agrees:
        yield f"recorded log-probabilities are off by {audit.off:.3f} nats per token"
