"""Options of `eval`."""

import argparse

from benchmark.cli.arguments.common import (
    add_data,
    add_env_processes,
    add_model_options,
    add_settings,
    count,
    json_object,
    places,
    seed,
)
from benchmark.engines.core.names import ENGINES, POLICIES

PROTOCOLS = ("standard", "thinking", "pixels")
EXAMPLES = """examples:
  arlarena-bench eval --model tiny-sokoban                    a shipped init, its own task
  arlarena-bench eval --model CKPT --task all --limit 10      a quick look at every task
  arlarena-bench eval --model CKPT --task sokoban,webshop     whole panels of two tasks
  arlarena-bench eval --model OWNER/NAME@REVISION --task alfworld/builtin
  arlarena-bench eval --model CKPT --protocol thinking        a model that thinks at length
  arlarena-bench eval --model CKPT --protocol pixels --task sokoban   a vision-language model
  arlarena-bench eval --model CKPT --chat-template-kwargs '{"enable_thinking": false}'
  arlarena-bench eval --endpoint http://localhost:8000 --task sokoban
  arlarena-bench eval --model CKPT --task sokoban --limit 1 --show-prompts 2
"""


def add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Declare the commands."""
    parser = commands.add_parser(
        "eval",
        help="evaluate a model on one or more panels",
        description="Play every episode of a panel with a model and write a run folder. Run the "
        "same command again to play only what is missing.",
        epilog=EXAMPLES,
    )
    _add_what(parser.add_argument_group("what is played"))
    _add_engine(parser.add_argument_group("engine"))
    _add_protocol(
        parser.add_argument_group(
            "protocol",
            "any value that differs from the panel's default makes this a different protocol, "
            "with a different fingerprint",
        )
    )
    more = parser.add_argument_group("more")
    more.add_argument(
        "--retry-errors", action="store_true", help="play episodes that ended in an error again"
    )
    more.add_argument(
        "--show-prompts",
        type=count,
        default=0,
        metavar="N",
        help="print the first N prompts as the model gets them, with its chat template applied, "
        "and its responses",
    )
    add_data(more)
    add_env_processes(more)


def _add_what(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--model",
        help="an init's name, a folder, a hub id (owner/name or owner/name@revision), or with "
        "--endpoint the served model's name (default there: the only one)",
    )
    group.add_argument(
        "--task",
        action="append",
        metavar="TASK[/PANEL],...",
        help="what to play: names, folders of tasks (./folder), or `all`; may be repeated "
        "(default: an init's own task, else all of the benchmark's)",
    )
    group.add_argument(
        "--panel",
        help="panel, if there is one --task (default: the public panel if its data is "
        "found, otherwise builtin)",
    )
    group.add_argument(
        "--limit",
        type=count,
        metavar="N",
        help="a quick look: only the first N episodes of every panel; such a run is not ranked",
    )
    group.add_argument(
        "--shard", metavar="I/N", help="play part I of N; join the parts with `merge`"
    )
    group.add_argument("--out", metavar="DIR", help="run folder (default: runs/<a name>)")


def _add_engine(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--engine",
        default="auto",
        choices=("auto", *ENGINES, *POLICIES),
        help="inference engine (default: openai with --endpoint; vllm on a GPU; otherwise "
        "transformers). expert and random are scripted and need no model",
    )
    group.add_argument(
        "--endpoint",
        action="append",
        default=[],
        metavar="URL",
        help="OpenAI-compatible server; repeatable",
    )
    group.add_argument(
        "--concurrency",
        type=places,
        metavar="N",
        help="episodes in flight (default: 64 for each copy of the model)",
    )
    add_model_options(group)
    group.add_argument(
        "--lora",
        metavar="ADAPTER",
        help="LoRA adapter on top of --model: a folder or a hub id, as safetensors",
    )
    group.add_argument(
        "--data-parallel-size",
        type=count,
        metavar="N",
        help="copies of the model, each in its own process and on its own GPUs (default: 1)",
    )
    group.add_argument(
        "--batch-invariant",
        action="store_true",
        help="vLLM on GPUs: make results independent of how requests are batched; slower",
    )
    group.add_argument(
        "--model-args",
        type=json_object,
        default={},
        metavar="JSON",
        help="vLLM: further engine arguments, such as '{\"max_num_seqs\": 512}'",
    )


def _add_protocol(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--protocol",
        default=PROTOCOLS[0],
        choices=PROTOCOLS,
        help="standard; thinking: 8192 tokens per turn, temperature 0.6, top-p 0.95; the text "
        "after the thought is the answer; pixels: standard, but tasks are shown as images (chosen "
        "automatically for an init made for images). Each is ranked separately (default: standard)",
    )
    group.add_argument("--temperature", type=float, help="standard: 0, greedy; 0.6 for aime")
    group.add_argument("--top-p", type=float, help="standard: 1, off; 0.95 for aime")
    group.add_argument("--top-k", type=int, help="standard: 0, off; 20 for aime")
    group.add_argument(
        "--max-tokens",
        type=count,
        metavar="N",
        help="longest response (standard: 512; 4096 for tir_math)",
    )
    group.add_argument(
        "--repeats",
        type=count,
        metavar="N",
        help="times each episode is played (standard: 1; 8 for aime)",
    )
    group.add_argument(
        "--seed", type=seed, default=0, metavar="N", help="base seed for sampling (default: 0)"
    )
    group.add_argument(
        "--chat-template-kwargs",
        type=json_object,
        default={},
        metavar="JSON",
        help="variables for the chat template, such as '{\"enable_thinking\": false}'",
    )
    group.add_argument(
        "--extra-body",
        type=json_object,
        default={},
        metavar="JSON",
        help='further fields of requests to servers, such as \'{"reasoning_effort": "low"}\'',
    )
    add_settings(group)
