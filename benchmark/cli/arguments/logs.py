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
        description="Draw the curves of one or more training logs. Runs of one recipe with the "
        "same settings make one curve, their seeds a band; a cross marks where a run collapsed.",
    )
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        help="training_log.jsonl, a folder that holds one, or a study's results for a track; "
        "folders without are skipped",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="what to write: .svg, .png, .pdf, or .html with a table of the last numbers "
        "(default: training_curves.svg in the working directory)",
    )
    parser.add_argument(
        "--x",
        default="updates",
        choices=("updates", "episodes", "tokens", "seconds"),
        help="along what: updates, episodes played, response tokens sampled, or seconds of "
        "compute (default: updates)",
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


def _add_stability(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "stability",
        help="how steadily recipes learn, from logs of any trainer",
        description="Collapses, drawdowns, drift and mismatch of training runs. Reads our own "
        "logs, TRL's trainer_state.json, lines of verl and ARLArena, exports of W&B and event "
        "files of TensorBoard; what a log does not say is shown as -, never guessed.",
    )
    parser.add_argument("logs", metavar="LOG", nargs="*", help="a log, or a folder that holds one")
    parser.add_argument(
        "--recipe",
        nargs="+",
        action="append",
        default=[],
        metavar=("NAME", "LOG"),
        help="a name and the logs that are seeds of this recipe, where the logs do not say it "
        "themselves; repeat for several",
    )
    parser.add_argument(
        "--format",
        choices=("arlarena-bench", "trl", "verl", "wandb", "tensorboard"),
        help="format of all logs (default: each by its content)",
    )
    parser.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="NAME=FIELD",
        help="what a field of a foreign log means, as validation/success=eval/accuracy; repeat "
        "for several",
    )
    parser.add_argument(
        "--success",
        metavar="NAME",
        help="the curve that counts as success, as validation/success@builtin or rollout/success "
        "(default: success of the only validation panel)",
    )
    parser.add_argument(
        "--by",
        default="recipe",
        choices=("recipe", "run"),
        help="what makes a row of our own logs: a recipe with its settings, or every run "
        "(default: recipe)",
    )
    parser.add_argument("--json", metavar="FILE", help="write all numbers as JSON, too")
    parser.add_argument("--out", metavar="FILE", help="write a page with curves (.html), too")
