"""The command line: `arlarena-bench COMMAND`.

This file declares the commands and their options; each command's work is in a module of its own
under `benchmark/commands/`, imported when it is called, so that help comes at once.
"""

import argparse
import importlib
import logging
import os
import sys
from collections.abc import Sequence

from tasks.errors import UserError

_PROCESSES_PER_CORE = 4
"""Worker processes that may be asked for; more only wait for each other."""

EXIT_USER_ERROR = 2
EXIT_ENGINE_DOWN = 3
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    0: done. 1: the command's answer is "no" (a replay differs, a validation fails). 2: a mistake
    of the user's, in one line. 3: the engine went down; the run can be resumed. 130: Ctrl-C.
    """
    arguments = _parser().parse_args(argv)
    logging.basicConfig(
        level=logging.DEBUG if arguments.debug else logging.WARNING, format="%(message)s"
    )
    from benchmark.engines.base import EngineDown

    try:
        if options := getattr(arguments, "data", ()):
            from tasks.data import use_data

            use_data(options)
        command = importlib.import_module(f"benchmark.commands.{arguments.command}")
        code: int = command.run(arguments)
        return code
    except UserError as error:
        return _fail(arguments, str(error), EXIT_USER_ERROR)
    except EngineDown as error:
        message = f"the engine went down: {error}; run the same command again to resume"
        return _fail(arguments, message, EXIT_ENGINE_DOWN)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_INTERRUPTED


def _fail(arguments: argparse.Namespace, message: str, code: int) -> int:
    if arguments.debug:
        logging.exception("traceback")
    print(f"arlarena-bench {arguments.command}: {message}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="arlarena-bench",
        description="Benchmark suite for reinforcement learning of language-model agents.",
    )
    parser.add_argument("--debug", action="store_true", help="show tracebacks and debug messages")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_eval(commands)
    _add_run_commands(commands)
    _add_task_commands(commands)
    _add_training_commands(commands)
    _add_plot(commands)
    return parser


def _data() -> argparse.ArgumentParser:
    """The option of commands that read panels."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="TASK=PATH",
        help="folder of a task's downloaded data (default: what its environment variable names); "
        "repeat for several",
    )
    return parser


def _settings() -> argparse.ArgumentParser:
    """The option of commands that play a task as it is chosen to be."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TASK.NAME=VALUE",
        help="a setting of a task that is not the standard one (see `tasks`); repeat for several",
    )
    return parser


def _worlds() -> argparse.ArgumentParser:
    """The options of commands that play or replay."""
    parser = argparse.ArgumentParser(add_help=False, parents=[_data()])
    parser.add_argument(
        "--env-processes",
        type=_processes,
        metavar="N",
        help="worker processes for the episodes of tasks with slow steps, at most; no result "
        "depends on it (default: one for each usable core, at most 32)",
    )
    return parser


def _add_eval(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "eval",
        help="evaluate a model on one or more panels",
        description="Play every episode of a panel with a model and write a run folder. The same "
        "command again plays only what is missing.",
        parents=[_worlds(), _settings()],
    )
    parser.add_argument(
        "--model",
        help="an init's name, a folder, a hub id (owner/name or owner/name@revision), or with "
        "--endpoint the served model's name",
    )
    parser.add_argument(
        "--task",
        action="append",
        metavar="TASK[/PANEL]",
        help="what to play; repeat for several (default: an init's own task, else all tasks)",
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
        "--concurrency", type=_count, default=64, help="episodes in flight (default: 64)"
    )
    _add_model_options(engine)
    protocol = parser.add_argument_group(
        "protocol",
        "another value than the panel's standard makes another protocol, with another fingerprint",
    )
    protocol.add_argument("--temperature", type=float, help="standard: 0, greedy; of aime 0.6")
    protocol.add_argument("--top-p", type=float, help="standard: 1, off; of aime 0.95")
    protocol.add_argument("--top-k", type=int, help="standard: 0, off; of aime 20")
    protocol.add_argument(
        "--max-tokens", type=_count, help="longest response (standard: 512, in tir_math 4096)"
    )
    protocol.add_argument(
        "--repeats", type=_count, help="plays of every episode (standard: 1; of aime 8)"
    )
    protocol.add_argument("--seed", type=int, default=0, help="base of all sampling seeds")


def _add_model_options(engine: "argparse._ArgumentGroup") -> None:
    """How an engine in this process loads its model."""
    engine.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16")
    )
    engine.add_argument("--gpu-memory-utilization", type=float, help="vLLM: share of the GPU")
    engine.add_argument("--tensor-parallel-size", type=_count, help="vLLM: GPUs per model")
    engine.add_argument("--max-model-len", type=_count, help="vLLM: context to reserve")


def _add_run_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "replay",
        help="re-execute a run's records without a model",
        description="Feed every recorded response to the same world again and say which records "
        "differ. Exit code 1 if any does, or if plays are missing.",
        parents=[_worlds(), _settings()],
    )
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser = commands.add_parser(
        "report",
        help="rebuild a run's summary and report from its records",
        description="Rebuild summary.json and report.html from the records alone.",
        parents=[_worlds()],
    )
    parser.add_argument("run", metavar="RUN", help="run folder")
    parser.add_argument("--html", metavar="FILE", help="where to write the report")
    parser = commands.add_parser(
        "compare",
        help="paired comparison of two runs",
        description="Difference of two runs on the panels that both played, episode by episode, "
        "with interval and p-value. Runs of different protocols are refused.",
    )
    parser.add_argument("run_a", metavar="RUN_A", help="run folder")
    parser.add_argument("run_b", metavar="RUN_B", help="run folder")
    parser = commands.add_parser(
        "merge",
        help="join the shards of a run",
        description="Join run folders that were played with --shard into one.",
        parents=[_worlds()],
    )
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders of all shards")
    parser.add_argument("--out", metavar="DIR", required=True, help="folder of the joined run")


def _add_task_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    commands.add_parser("tasks", help="list tasks, panels and inits", parents=[_data()])
    parser = commands.add_parser(
        "play", help="play one episode in the terminal", parents=[_data(), _settings()]
    )
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--panel", default="builtin", help="default: builtin")
    parser.add_argument("--episode", help="id or number of the episode (default: a random one)")
    parser.add_argument("--prompt", action="store_true", help="show the whole prompt of a turn")
    parser = commands.add_parser(
        "validate",
        help="prove a task without a model",
        description="Check that a task keeps its promises: the expert wins, the random policy "
        "stays in its band, the same play gives the same result in any order of work, panels are "
        "the pinned ones and training holds none of them. Exit code 1 if a check fails.",
        parents=[_worlds(), _settings()],
    )
    parser.add_argument("task", metavar="TASK")
    parser.add_argument("--panel", action="append", help="repeat for several (default: all)")
    parser.add_argument(
        "--training-entries",
        type=_count,
        default=2000,
        help="entries of the training stream to hold against the panels (default: 2000)",
    )


def _add_training_commands(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    parser = commands.add_parser(
        "bc",
        help="train an init from expert demonstrations",
        description="Behaviour cloning: train a model on what a task's scripted expert does on "
        "its training stream, evaluate it, and write a folder that --model takes.",
        parents=[_worlds()],
    )
    parser.add_argument("recipe", metavar="RECIPE", help="an init's name or a recipe file")
    parser.add_argument("--out", metavar="DIR", help="folder (default: runs/bc-<recipe>)")
    parser.add_argument("--tracker", action="append", default=[], help="accelerate tracker, too")
    _add_train(commands)


def _add_train(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "train",
        help="train a policy by a recipe, from an init",
        description="Reinforcement learning: one recipe (a choice of advantage, clipping, "
        "aggregation and sampling) at one scale (sizes), from one init. The same command resumes "
        "from the last checkpoint.",
        parents=[_worlds()],
    )
    parser.add_argument("--recipe", required=True, help="a shipped recipe's name or a YAML file")
    parser.add_argument(
        "--init", required=True, help="an init's name, a folder or a hub id: where weights start"
    )
    parser.add_argument(
        "--task", action="append", help="what to train on; repeat for several (default: the init's)"
    )
    parser.add_argument(
        "--scale", default="tiny", help="tiny, paper or a YAML file (default: tiny)"
    )
    parser.add_argument("--seed", type=_seed, default=0, help="of streams, draws and order")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a value of your own, as optimisation.learning_rate=1e-4 or, of a task, "
        "TASK.NAME=VALUE; repeat for several",
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
        type=_seed,
        nargs="?",
        const=1,
        metavar="N",
        help="play while the policy is updated; rows are at most N updates old (default: 1)",
    )
    parser.add_argument("--threads", type=_count, help="CPU threads of this process (default: 1)")
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
    _add_model_options(engine)


def _add_plot(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "plot",
        help="draw curves of training runs",
        description="Draw the curves of one or more training logs. Runs of one recipe with the "
        "same settings make one curve, their seeds a band; a cross marks where a run collapsed.",
    )
    parser.add_argument(
        "logs", metavar="LOG", nargs="+", help="training_log.jsonl, or a folder that holds one"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="what to write: .svg, .png, .pdf, or .html with a table of the last numbers "
        "(default: training_curves.svg beside the first log)",
    )
    parser.add_argument(
        "--x",
        default="updates",
        choices=("updates", "tokens", "seconds"),
        help="along what: updates, response tokens sampled, or seconds of compute "
        "(default: updates)",
    )
    parser.add_argument(
        "--metrics", metavar="A,B,...", help="what to draw, by name in the log (default: eight)"
    )
    parser.add_argument(
        "--by",
        default="recipe",
        choices=("recipe", "run"),
        help="what makes a curve: a recipe with its settings, or every run (default: recipe)",
    )


def _count(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return value


def _seed(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 2**63):
        raise argparse.ArgumentTypeError(f"must be a whole number from 0 on, not {text!r}")
    return int(text)


def _processes(text: str) -> int:
    value, most = _count(text), _PROCESSES_PER_CORE * len(os.sched_getaffinity(0))
    if value > most:
        raise argparse.ArgumentTypeError(f"at most {most} ({_PROCESSES_PER_CORE} a core)")
    return value


if __name__ == "__main__":
    sys.exit(main())
