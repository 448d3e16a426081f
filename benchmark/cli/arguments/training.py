"""Options of `bc` and `train`."""

import argparse

from benchmark.cli.arguments.common import (
    add_model_options,
    count,
    data,
    env_options,
    gpu_count,
    json_object,
    processes,
    seed,
    task,
)
from benchmark.engines.core.names import ENGINES

SCALES = ("tiny", "smoke", "paper", "paper_released")
"""All shipped scales; listing their folder would cost every command an import."""
DEFAULT_SCALE = "tiny"
DOCTOR_SCALE = "paper"
"""The scale that `doctor` assumes by default."""


def add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    """Declare the commands."""
    parser = commands.add_parser(
        "bc",
        help="train an init from demonstrations of a scripted player",
        description="Behavior cloning: train a model on demonstrations of a scripted player "
        "on the training stream of its task, evaluate it, and write a folder for --model.",
        parents=[env_options()],
    )
    parser.add_argument("recipe", metavar="RECIPE", help="an init's name or a recipe file")
    parser.add_argument("--out", metavar="DIR", help="folder (default: runs/bc-<recipe>)")
    parser.add_argument(
        "--tracker", action="append", default=[], help="also log to an accelerate tracker"
    )
    _add_train(commands)
    _add_doctor(commands)
    parser = commands.add_parser(
        "tracks",
        help="list the tracks, on which training runs are comparable, or show one in full",
        description="A track pins everything in a training run except the method: init, tasks, "
        "sizes and the rule for the learning rate.",
        epilog="examples:\n  arlarena-bench tracks\n  arlarena-bench tracks sokoban-standard\n",
    )
    parser.add_argument("track", metavar="NAME", nargs="?", help="show this track in full")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def _add_train(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "train",
        help="train a policy with a recipe, from an init",
        description="Reinforcement learning: one recipe (a choice of advantage, clipping, "
        "aggregation and sampling) on a track, which pins everything else, or at one scale (sizes) "
        "from one init. The same command resumes from the last checkpoint.",
        epilog="examples:\n"
        "  arlarena-bench train --track sokoban-standard --recipe grpo --dry-run\n"
        "  arlarena-bench train --track sokoban-standard --recipe grpo --seed 1\n"
        "  arlarena-bench train --recipe my.yaml --init tiny-sokoban --set "
        "optimization.learning_rate=1e-4\n",
        parents=[env_options()],
    )
    _add_configuration(parser)
    _add_conduct(parser)
    _add_training_engine(parser)


def _share(text: str) -> str:
    """Parse a task, optionally with its number of groups: `NAME` or `NAME=GROUPS`."""
    name, equals, groups = text.partition("=")
    return f"{task(name)}={count(groups)}" if equals else task(name)


def _add_configuration(parser: argparse.ArgumentParser) -> None:
    """Add the options for what is trained."""
    parser.add_argument("--recipe", required=True, help="a shipped recipe's name or a YAML file")
    _add_policy(parser, DEFAULT_SCALE)
    parser.add_argument(
        "--results",
        metavar="DIR",
        help="on a track: folder with a study's results, which hold the tuned learning rate of "
        "each recipe, custom ones included (default: baselines/results)",
    )
    parser.add_argument(
        "--tuning",
        metavar="DIR",
        help="on a track: folder of the tuning runs that find the learning rate, which seeds "
        "can share (default: OUT/tuning)",
    )
    parser.add_argument("--seed", type=seed, default=0, help="seed of streams, sampling and order")


def _add_policy(parser: "argparse.ArgumentParser | argparse._ArgumentGroup", scale: str) -> None:
    """Add the options for a run's init and sizes; `scale` is the default."""
    parser.add_argument(
        "--track",
        metavar="NAME",
        help="pins init, tasks, sizes and the rule for the learning rate (see `tracks`); "
        "runs on one track are comparable",
    )
    parser.add_argument(
        "--init",
        help="without a track: the starting weights, as an init's name, a folder or a hub id",
    )
    parser.add_argument(
        "--task",
        action="append",
        type=_share,
        metavar="NAME[=GROUPS]",
        help="task to train on, by name or folder; repeatable: a mixture, with GROUPS groups of "
        "each task per update, or the same number of each (default: the init's task)",
    )
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module or .py file with custom advantages, clipping rules or learners; repeatable",
    )
    parser.add_argument(
        "--chat-template-kwargs",
        type=json_object,
        default={},
        metavar="JSON",
        help="variables for the chat template in training and validation, such as "
        "'{\"enable_thinking\": false}'; a run on a track becomes an open run",
    )
    scales = ", ".join(SCALES)
    parser.add_argument("--scale", help=f"{scales}, or a YAML file (default: {scale})")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a value, such as optimization.learning_rate=1e-4, or a task's "
        "setting, TASK.NAME=VALUE; repeatable; a run on a track becomes an open run",
    )


def _add_conduct(parser: argparse.ArgumentParser) -> None:
    """Add the options for how the run is carried out."""
    parser.add_argument("--out", metavar="DIR", help="folder (default: runs/train-...)")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the full configuration and the estimated memory and time, and exit",
    )
    parser.add_argument(
        "--stop-on-collapse", action="store_true", help="stop when the policy has collapsed"
    )
    parser.add_argument(
        "--tracker",
        action="append",
        default=[],
        help="also log to an accelerate tracker: tensorboard, wandb, trackio, ...",
    )
    _add_async_rollouts(parser)
    _add_threads(parser)
    gpus = parser.add_argument_group("GPUs")
    gpus.add_argument(
        "--gpus",
        type=gpu_count,
        metavar="N",
        help="use N GPUs of this machine: with several, start vLLM servers on some and train on "
        "the others, sharded; --dry-run then computes memory and loads nothing, on any machine",
    )
    gpus.add_argument(
        "--serve-gpus",
        type=seed,
        metavar="K",
        help="how many of the --gpus run a vLLM server (default: a quarter); 0: vLLM and the "
        "trainer take turns on every GPU",
    )


def _add_async_rollouts(parser: "argparse.ArgumentParser | argparse._ArgumentGroup") -> None:
    parser.add_argument(
        "--async-rollouts",
        type=seed,
        nargs="?",
        const=1,
        metavar="N",
        help="play while the policy is updated; rows are at most N updates old (default: 1)",
    )


def _add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        type=processes,
        help="CPU threads of this process (default: OMP_NUM_THREADS, or 1 if it is not set)",
    )


def _add_training_engine(parser: argparse.ArgumentParser) -> None:
    """Add the options for the rollout engine and its weight sync."""
    engine = parser.add_argument_group("engine")
    _add_engine(engine)
    engine.add_argument(
        "--weights-folder",
        metavar="DIR",
        help="folder where the servers read new weights (default: in the run folder)",
    )
    engine.add_argument(
        "--weights-nccl",
        metavar="HOST:PORT",
        help="send new weights to the servers by NCCL instead, from this address of the trainer",
    )
    engine.add_argument(
        "--weights-dtype",
        choices=("float32", "bfloat16"),
        help="type of the weights sent to vLLM (default: bfloat16 if the policy is trained in it)",
    )
    engine.add_argument(
        "--sleep",
        action="store_true",
        help="vLLM in this process frees the GPU's memory while the policy learns (not tested on a "
        "GPU yet)",
    )
    add_model_options(engine)


def _add_engine(engine: "argparse._ArgumentGroup") -> None:
    """Add the options for the rollout engine."""
    engine.add_argument(
        "--engine",
        default="auto",
        choices=("auto", *ENGINES),
        help="inference engine (default: vllm on a GPU, otherwise transformers)",
    )
    engine.add_argument(
        "--endpoint",
        action="append",
        default=[],
        metavar="URL",
        help="vLLM server with VLLM_SERVER_DEV_MODE=1 that serves the init; repeatable",
    )
    engine.add_argument(
        "--served-model", metavar="NAME", help="the served model's name (default: the init's)"
    )


def _add_doctor(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="check that this machine can train",
        description="One page about this machine: GPUs, driver, memory, disk and versions; whether "
        "a planned run fits and can start (--init or --track); and two updates of a tiny model, "
        "which check the weight sync by checksum and measure the gap between engine and "
        "trainer, memory and speed. Exit code 1 if a run would fail or be wrong.",
        epilog="examples:\n"
        "  arlarena-bench doctor\n"
        "  arlarena-bench doctor --init Qwen/Qwen3-4B --task alfworld --scale paper --gpus 8\n"
        "  arlarena-bench doctor --engine transformers --json\n",
        parents=[data()],
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--no-smoke", action="store_true", help="only inspect the machine, train nothing"
    )
    parser.add_argument(
        "--out", metavar="DIR", help="folder for runs; the test run is deleted (default: runs)"
    )
    _add_threads(parser)
    policy = parser.add_argument_group("planned run (does it fit, and would `train` refuse it?)")
    policy.add_argument("--recipe", help="a shipped recipe's name or a YAML file (default: sampo)")
    _add_policy(policy, DOCTOR_SCALE)
    _add_async_rollouts(policy)
    policy.add_argument(
        "--gpus", type=gpu_count, metavar="N", help="as in `train --gpus N` (default: one device)"
    )
    policy.add_argument("--serve-gpus", type=seed, metavar="K", help="as in `train --serve-gpus K`")
    engine = parser.add_argument_group("engine")
    _add_engine(engine)
    add_model_options(engine)
    engine.add_argument(
        "--sleep", action="store_true", help="vLLM: as `train --sleep`, in the short run, too"
    )
    engine.add_argument(
        "--weights-nccl", metavar="HOST:PORT", help="servers: as `train --weights-nccl`"
    )
    # The other options of `train` do not affect whether a run can start.
    parser.set_defaults(
        dry_run=True,  # the GPUs of the run need not be on this machine
        results=None,
        tuning=None,
        seed=0,
        tracker=[],
        stop_on_collapse=False,
        env_processes=None,
        weights_folder=None,
        weights_dtype=None,
    )
