"""Options of the commands on training logs: `plot` and `stability`."""

import argparse


def add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> None:
    """Declare the commands."""
    _add_plot(commands)
    _add_stability(commands)


def _add_plot(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "plot",
        help="draw curves of training runs",
        description="Draw the curves of one or more training logs. Runs with the same recipe and "
        "settings become one curve with a band over seeds; a cross marks a collapse.",
        epilog="examples:\n  arlarena-bench plot runs/train-*\n"
        "  arlarena-bench plot runs/train-* --x episodes --out curves.html\n"
        "  arlarena-bench plot runs/train-* baselines/results/sokoban-stress/grpo\n",
    )
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        help="training_log.jsonl, a folder with one, a submission, a study's results for a "
        "track, or FOLDER/RECIPE for one recipe of these; folders without a log are skipped",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="output file: .svg, .png, .pdf, or .html with a table of the final values "
        "(default: training_curves.svg in the working directory)",
    )
    parser.add_argument(
        "--x",
        default="updates",
        choices=("updates", "episodes", "tokens", "seconds"),
        help="x axis: updates, episodes played, response tokens sampled, or seconds of "
        "compute (default: updates)",
    )
    parser.add_argument(
        "--metrics",
        metavar="A,B,...",
        help="metrics to draw, by name in the log (default: eight of them)",
    )
    parser.add_argument(
        "--by",
        default="recipe",
        choices=("recipe", "run"),
        help="one curve per recipe with its settings, or per run (default: recipe)",
    )


def _add_stability(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "stability",
        help="stability metrics of recipes, from logs of any trainer",
        description="Collapses, drawdowns, drift and mismatch of training runs. Reads this "
        "project's logs, TRL's trainer_state.json, console logs of verl and "
        "ARLArena, W&B exports and TensorBoard event files. Values missing in a log "
        "are shown as - and never guessed.",
        epilog="examples:\n  arlarena-bench stability runs/train-*\n"
        "  arlarena-bench stability runs/train-* baselines/results/sokoban-stress/grpo\n"
        "  arlarena-bench stability --recipe grpo trl-s0 trl-s1 --recipe gspo trl-s2 trl-s3\n"
        "  arlarena-bench stability verl.log --map validation/success=val/score\n",
    )
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="*",
        help="a log, a folder with one, a submission, a study's results for a track, or "
        "FOLDER/RECIPE for one recipe of these",
    )
    parser.add_argument(
        "--recipe",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "LOG"),
        help="a recipe's name and the logs of its seeds, if the logs do not name it; repeatable",
    )
    parser.add_argument(
        "--format",
        choices=("arlarena-bench", "trl", "verl", "wandb", "tensorboard"),
        help="format of all logs (default: detected from the content)",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="NAME=FIELD",
        help="map a field of another trainer's log, such as "
        "validation/success=eval/accuracy; repeatable",
    )
    parser.add_argument(
        "--success",
        metavar="NAME",
        help="the success curve, such as validation/success@builtin or rollout/success "
        "(default: success of the only validation panel)",
    )
    parser.add_argument(
        "--by",
        default="recipe",
        choices=("recipe", "run"),
        help="for this project's logs, one row per recipe with its settings, or per run "
        "(default: recipe)",
    )
    parser.add_argument("--legend", action="store_true", help="explain the columns")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers as JSON")
    parser.add_argument("--out", metavar="FILE", help="also write a page with curves (.html)")
