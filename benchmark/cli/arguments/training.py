"""Options of `bc` and `train`."""

import argparse

from benchmark.cli.arguments.common import add_model_options, count, env_options, seed, task

DEFAULT_SCALE = "tiny"


def add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    """Declare the commands."""
    parser = commands.add_parser(
        "bc",
        help="train an init from expert demonstrations",
        description="Behavior cloning: train a model on what a task's scripted expert does on "
        "its training stream, evaluate it, and write a folder that --model takes.",
        parents=[env_options()],
    )
    parser.add_argument("recipe", metavar="RECIPE", help="an init's name or a recipe file")
    parser.add_argument("--out", metavar="DIR", help="folder (default: runs/bc-<recipe>)")
    parser.add_argument("--tracker", action="append", default=[], help="accelerate tracker, too")
    _add_train(commands)
    parser = commands.add_parser(
        "tracks",
        help="list the tracks that training runs can be compared on",
        description="A track pins everything of a training run but the method: init, tasks, sizes "
        "and the rule for the learning rate.",
    )
    parser.add_argument("--json", action="store_true", help="all facts, for programs")


def _add_train(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "train",
        help="train a policy by a recipe, from an init",
        description="Reinforcement learning: one recipe (a choice of advantage, clipping, "
        "aggregation and sampling) on a track, which pins everything else, or at one scale (sizes) "
        "from one init. The same command resumes from the last checkpoint.",
        parents=[env_options()],
    )
    parser.add_argument("--recipe", required=True, help="a shipped recipe's name or a YAML file")
    parser.add_argument(
        "--track",
        metavar="NAME",
        help="pins init, tasks, sizes and the rule for the learning rate (see `tracks`): runs on "
        "one track can be compared",
    )
    parser.add_argument(
        "--init",
        help="without a track: an init's name, a folder or a hub id: where weights start",
    )
    parser.add_argument(
        "--task",
        action="append",
        type=task,
        help="what to train on: a task's name or folder; repeat for several (default: the init's)",
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module or a .py file with advantages or clipping rules of your own; repeat for "
        "several",
    )
    parser.add_argument(
        "--results",
        metavar="DIR",
        help="on a track: a study's results, whose tuned learning rate is taken (default: "
        "baselines/results)",
    )
    parser.add_argument("--scale", help=f"tiny, paper or a YAML file (default: {DEFAULT_SCALE})")
    parser.add_argument("--seed", type=seed, default=0, help="of streams, draws and order")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a value of your own, as optimization.learning_rate=1e-4 or, of a task, "
        "TASK.NAME=VALUE; repeat for several; on a track the run is then an open one",
    )
    parser.add_argument("--out", metavar="DIR", help="folder (default: runs/train-...)")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the whole configuration and what memory and time it will take, and end",
    )
    parser.add_argument(
        "--stop-on-collapse", action="store_true", help="end when the policy has collapsed"
    )
    parser.add_argument(
        "--tracker",
        action="append",
        default=[],
        help="accelerate tracker that gets the log, too: tensorboard, wandb, trackio, ...",
    )
    parser.add_argument(
        "--async-rollouts",
        type=seed,
        nargs="?",
        const=1,
        metavar="N",
        help="play while the policy is updated; rows are at most N updates old (default: 1)",
    )
    parser.add_argument("--threads", type=count, help="CPU threads of this process (default: 1)")
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "vllm", "transformers", "openai"),
        help="where responses come from (default: vllm on a GPU, else transformers)",
    )
    engine.add_argument(
        "--endpoint",
        action="append",
        default=[],
        metavar="URL",
        help="vLLM server with VLLM_SERVER_DEV_MODE=1, serving the init; repeat for several",
    )
    engine.add_argument(
        "--served-model", metavar="NAME", help="the servers' name for it (default: the init's)"
    )
    engine.add_argument(
        "--weights-folder",
        metavar="DIR",
        help="where new weights are put for the servers to read (default: in the run folder)",
    )
    engine.add_argument(
        "--weights-nccl",
        metavar="HOST:PORT",
        help="send new weights to the servers by NCCL instead, from this address of the trainer",
    )
    add_model_options(engine)
