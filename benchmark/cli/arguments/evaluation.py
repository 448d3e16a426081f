"""Options of `eval`."""

import argparse

from benchmark.cli.arguments.common import add_model_options, count, env_options, settings, task


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    parser = commands.add_parser(
        "eval",
        help="evaluate a model on one or more panels",
        description="Play every episode of a panel with a model and write a run folder. The same "
        "command again plays only what is missing.",
        parents=[env_options(), settings()],
    )
    parser.add_argument(
        "--model",
        help="an init's name, a folder, a hub id (owner/name or owner/name@revision), or with "
        "--endpoint the served model's name",
    )
    parser.add_argument(
        "--task",
        action="append",
        type=task,
        metavar="TASK[/PANEL]",
        help="what to play; a task is named or given by its folder (./folder); "
        "repeat for several (default: an init's own task, else all of the benchmark's)",
    )
    parser.add_argument(
        "--panel",
        help="panel of the one --task (default: the field's panel where its data is, else builtin)",
    )
    parser.add_argument("--out", metavar="DIR", help="run folder (default: runs/<a name>)")
    parser.add_argument(
        "--retry-errors", action="store_true", help="replay episodes recorded as errors"
    )
    parser.add_argument(
        "--shard", metavar="I/N", help="play part I of N; join the parts with `merge`"
    )
    engine = parser.add_argument_group("engine")
    engine.add_argument(
        "--engine",
        default="auto",
        choices=("auto", "vllm", "transformers", "openai", "expert", "random"),
        help="where responses come from (default: openai with --endpoint; vllm on a GPU; else "
        "transformers). expert and random are scripted and need no model",
    )
    engine.add_argument(
        "--endpoint",
        action="append",
        default=[],
        metavar="URL",
        help="OpenAI-compatible server; repeat for several",
    )
    engine.add_argument(
        "--concurrency", type=count, default=64, help="episodes in flight (default: 64)"
    )
    add_model_options(engine)
    protocol = parser.add_argument_group(
        "protocol",
        "another value than the panel's standard makes another protocol, with another fingerprint",
    )
    protocol.add_argument("--temperature", type=float, help="standard: 0, greedy; of aime 0.6")
    protocol.add_argument("--top-p", type=float, help="standard: 1, off; of aime 0.95")
    protocol.add_argument("--top-k", type=int, help="standard: 0, off; of aime 20")
    protocol.add_argument(
        "--max-tokens", type=count, help="longest response (standard: 512, in tir_math 4096)"
    )
    protocol.add_argument(
        "--repeats", type=count, help="plays of every episode (standard: 1; of aime 8)"
    )
    protocol.add_argument("--seed", type=int, default=0, help="base of all sampling seeds")
