"""Options of `submit` and `audit`."""

import argparse

from benchmark.cli.arguments.common import count, env_options, seed
from benchmark.engines.core.names import DTYPES


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    parser = commands.add_parser(
        "submit",
        help="create a submission's folder, or check one as CI does",
        description="A leaderboard entry is a pull request that adds one folder.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_init(actions)
    _add_prepare(actions)
    _add_to_hub(actions)
    _add_check(actions)
    _add_hash(commands)
    _add_audit(commands)


def _add_init(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "init",
        help="write a first about.yaml from runs and training logs",
        description="Write about.yaml with what runs and logs say (init, base model, parameters, "
        "training streams, recipe, dates); the rest is marked `fill in`.",
        parents=[_parts()],
    )
    action.add_argument(
        "--out", metavar="FILE", default="about.yaml", help="new file (default: about.yaml)"
    )


def _add_prepare(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "prepare",
        help="create a folder from runs and training logs",
        description="Pack runs, grouped by their weights, and their training logs into a folder "
        "that `submit check` accepts.",
        epilog="examples:\n  arlarena-bench submit init runs/eval-s0 runs/eval-s1 --training-log "
        "runs/s0 runs/s1\n  arlarena-bench submit prepare runs/eval-s0 runs/eval-s1 "
        "--training-log runs/s0 runs/s1 \\\n      --about about.yaml --out "
        "submissions/YYYYMMDD_my-method\n",
        parents=[_parts()],
    )
    action.add_argument(
        "--about", metavar="FILE", required=True, help="YAML: name, authors, contact, method, ..."
    )
    action.add_argument(
        "--out", metavar="DIR", required=True, help="new folder, submissions/<yyyymmdd>_<name>"
    )


def _add_to_hub(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "to-hub",
        help="replace a folder's records by links to a dataset on the hub",
        description="For folders of more than 10 MiB: upload the compressed files to a dataset, "
        "as <folder's name>/<path>, then pass dataset and commit. Each file is "
        "downloaded and compared before it is removed from the folder.",
    )
    action.add_argument("folder", metavar="DIR", help="the submission's folder")
    action.add_argument(
        "--dataset", metavar="OWNER/NAME@COMMIT", required=True, help="dataset and its commit"
    )


def _add_check(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    action = actions.add_parser(
        "check",
        help="check a folder: schema, protocol, replay of every episode, logs",
        description="The check of a pull request. Exit code 1 if there are findings.",
        parents=[env_options()],
    )
    action.add_argument("folder", metavar="DIR", help="the submission's folder")
    action.add_argument(
        "--submissions",
        metavar="DIR",
        help="folder with the other submissions (default: the parent folder)",
    )
    action.add_argument(
        "--base", metavar="REF", help="also check that nothing else has changed since this commit"
    )
    action.add_argument("--head", metavar="REF", help="last commit of the changes (default: HEAD)")
    action.add_argument(
        "--repository",
        metavar="DIR",
        help="clone with both commits (default: the one that contains DIR)",
    )
    action.add_argument("--json", metavar="FILE", help="also write the verdict as JSON")
    action.add_argument("--comment", metavar="FILE", help="also write a comment in Markdown")


def _add_hash(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "hash",
        help="print the hash by which runs and entries name weights",
        description="Print the SHA-256 over the names and contents of all files of a model that "
        "are loaded. run.json and submission.json call it sha256. A model on the hub is "
        "downloaded first.",
        epilog="examples:\n  arlarena-bench hash tiny-sokoban runs/train-grpo/last\n",
    )
    parser.add_argument(
        "model", metavar="MODEL", nargs="+", help="an init's name, a folder or a hub id"
    )


def _add_audit(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "audit",
        help="score a submission's responses under its named weights",
        description="A replay shows that actions earn their rewards, not who chose them. This "
        "command scores the recorded responses of some episodes under the named "
        "weights and flags the implausible ones. Exit code 1 if there are any.",
    )
    parser.add_argument("folder", metavar="DIR", help="the submission's folder")
    parser.add_argument("--model", required=True, help="an init's name, a folder or a hub id")
    parser.add_argument(
        "--any-weights", action="store_true", help="accept weights other than the submission's"
    )
    parser.add_argument(
        "--episodes",
        type=count,
        default=16,
        help="episodes per run, chosen at random (default: 16)",
    )
    parser.add_argument(
        "--seed", type=seed, default=0, help="seed for choosing episodes (default: 0)"
    )
    parser.add_argument(
        "--dtype",
        default="auto",
        choices=DTYPES,
        help="type of weights and activations (default: float32 on a CPU, else the checkpoint's)",
    )


def _parts() -> argparse.ArgumentParser:
    """The options for the runs and logs of an entry."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("run", metavar="RUN", nargs="*", help="run folders with whole panels")
    parser.add_argument(
        "--training-log",
        metavar="LOG",
        nargs="+",
        action="extend",
        default=[],
        help="training logs or folders of `train`, one per checkpoint; repeatable. Logs of TRL, "
        "verl, W&B or TensorBoard, in the order of the first runs, earn a separate badge",
    )
    parser.add_argument(
        "--map",
        metavar="NAME=FIELD",
        action="append",
        default=[],
        help="meaning of a field of another trainer's logs, such as "
        "validation/success=eval/accuracy, as for `stability`; repeatable",
    )
    parser.add_argument(
        "--seeds",
        metavar="N,N,...",
        type=_seeds,
        help="training seeds in the order of their first runs, if no logs name them (those of "
        "other trainers do not)",
    )
    return parser


def _seeds(text: str) -> list[int]:
    """Parse seeds separated by commas."""
    return [seed(part) for part in text.split(",")]
