"""`arlarena-bench audit`: score recorded responses under the weights that are named."""

import argparse
from pathlib import Path

from benchmark.commands.inits import find_model
from benchmark.submissions.check import read_accepted
from tasks.errors import UserError


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    entry = read_accepted(Path(arguments.folder))
    source = find_model(arguments.model)
    if source.path is None:
        raise UserError(f"--model {arguments.model}: the weights themselves are needed")
    named = [
        point
        for point in entry.checkpoints
        if point.checkpoint.model.sha256 == source.identity.sha256
        or (point.checkpoint.model.name, point.checkpoint.model.revision)
        == (source.identity.name, source.identity.revision)
    ]
    if not named and not arguments.any_weights:
        raise UserError(
            f"{arguments.model} is none of the submission's checkpoints; --any-weights scores the "
            "records of all of them nevertheless"
        )
    import torch

    from benchmark.engines.chat import Chat
    from benchmark.engines.transformers import load_model
    from benchmark.submissions.audit import audit_run

    device = "cuda" if torch.cuda.is_available() else "cpu"
    chat = Chat.load(source.path)
    model = load_model(source.path, arguments.dtype, device)
    audited = flagged = 0
    for point in named or entry.checkpoints:
        for read in point.runs:
            for audit in audit_run(read, model, chat, arguments.episodes, arguments.seed):
                audited += 1
                if not audit.credible:
                    flagged += 1
                    how = f"z {audit.z:.1f}" if audit.z is not None else f"{audit.far:.1%} far"
                    name = "/".join(map(str, audit.key))
                    print(f"{name}: {audit.tokens} tokens, log-prob {audit.log_prob:.1f}, {how}")
    print(f"{audited} episodes scored under {source.identity.text}: {flagged} not credible")
    return 1 if flagged else 0
