"""Technical terms of the page, each with an explanation that opens by click, key or touch.

A term is a button that opens its explanation (the browser's own popover). All explanations are in
the page once, in its header.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from leaderboard.page.markup import NOTHING, Piece, element, joined


@dataclass(frozen=True, slots=True)
class Word:
    """A term and its explanation.

    Attributes:
        title: The term.
        text: Its explanation, as paragraphs.
    """

    title: str
    text: tuple[str, ...]


ONE_SEED: Final = "one training run says nothing about the next: at least two seeds are needed"
"""Why there is no dependable success."""
WORDS: Final[Mapping[str, Word]] = {
    "collapse": Word(
        "Collapse",
        (
            "A training run has collapsed when its success, smoothed over three validations, has "
            "lost at least half of what it gained over the init (if it gained 10 points or more) "
            "for three validations in a row, or falls to half of its best value or less. A run "
            "that was stopped early counts as collapsed.",
            "Few seeds say little: with 0 of 3 collapsed, the true share can be anything from 0 to "
            "71% (exact 95% interval). Every count is shown with its interval.",
            "With three validations or fewer, the smoothed value still contains the init: whether "
            "such a run collapsed is unknown, unless its log shows it anyway.",
        ),
    ),
    "halved": Word(
        "Halved",
        (
            "A training run that did not collapse, but whose last validation is at half of its "
            "best one or below (if that was 10% or more). Collapse is judged by success smoothed "
            "over three validations, which does not see a loss at the very end. On several tasks "
            "one of them is enough.",
            "Such a run does not count as collapsed, nor does it in dependable success: it might "
            "have recovered.",
        ),
    ),
    "dependable": Word(
        "Dependable success",
        (
            "The success to expect if you train once more with a new seed. Every seed counts with "
            "its success; a seed whose training run collapsed counts as 0: "
            "D = (1/m) \u03a3 (1 \u2212 c) p over the m seeds, with c = 1 for a collapse.",
            "Its 95% interval joins that of the success over episodes and seeds with how little a "
            "few seeds say about collapse: with 0 of 3, the true rate can still be high. "
            "It is not defined for a single seed.",
        ),
    ),
    "worst_seed": Word(
        "Worst seed",
        ("The lowest final success of all seeds, in the validations during training.",),
    ),
    "drawdown": Word(
        "Drawdown",
        (
            "The deepest fall of the success curve below its best value so far, in points; the "
            "median of the seeds. 0: it never fell.",
        ),
    ),
    "retention": Word(
        "Retention",
        (
            "The final success divided by the best success during training, both smoothed over "
            "three validations; the median of the seeds. 1: nothing was lost.",
        ),
    ),
    "mismatch": Word(
        "Mismatch",
        (
            "How far the probabilities that the trainer computes are from those of the engine that "
            "sampled: the k3 estimate of their KL divergence for a token, 95th percentile of the "
            "updates, in nats.",
        ),
    ),
    "panel": Word(
        "Panel",
        (
            "A fixed, hashed list of a task's episodes: the benchmark split. Every entry plays all "
            "of them, so entries are compared episode by episode. The panel \u201cbuiltin\u201d "
            "was generated for this benchmark and needs no download; other panels are from public "
            "datasets.",
        ),
    ),
    "init": Word(
        "Init",
        (
            "The checkpoint that training started from. Its own success is the tick on the bar, "
            "and a row of its own below the ranked entries.",
            "An init called mixed has also learned from a careless player, which lowers its "
            "success: it leaves room for training.",
        ),
    ),
    "interval": Word(
        "Interval",
        (
            "95% confidence interval over the episodes of the panel and, of an entry with several "
            "training seeds, over the seeds: how far another panel and other seeds would move the "
            "number. With a single seed it covers episodes only: too narrow for the method. "
            "Every seed is a dot on the bar.",
        ),
    ),
    "track": Word(
        "Track",
        (
            "Everything about a training run except the method, fixed: init, task, batch sizes, "
            "number of updates, KL penalty, and the rule for the learning rate. Entries are ranked "
            "within their track only. \u201copen\u201d: on no track.",
            "standard: a good method should learn here; the learning rate is tuned for each "
            "method, with a KL penalty. stress: a high fixed learning rate, two epochs per update "
            "and no KL penalty, meant to break methods that are not robust. Success on the two is "
            "not comparable.",
        ),
    ),
    "badges": Word(
        "Checked",
        (
            "replayed: every recorded action was executed again and earns the recorded reward. It "
            "doesn't prove which model chose the actions.",
            "stability: logs: the training curves were computed from raw logs. It doesn't prove "
            "that the logs come from a real run.",
            "init: fixed: training started from a registered checkpoint, by the hash that the "
            "authors declare. re-run: maintainers evaluated the weights again. rerun failed: they "
            "did, and the results did not match. first updates trained again: they repeated the "
            "beginning of every training run, but no episodes. See the tab About.",
        ),
    ),
    "agreement": Word(
        "Agreement with the log",
        (
            "Training runs are validated on panels, mostly on the entry's. The weights that were "
            "evaluated should solve as many episodes as one of the validations in the log. If it "
            "isn't the last one, the checkpoint was probably chosen by its success there, which "
            "flatters it.",
            "Agreement doesn't prove that the log comes from the training run of these weights.",
        ),
    ),
    "rank": Word(
        "Rank",
        (
            "A beats B when the 95% interval of their paired difference excludes 0. A rank is the "
            "range of places consistent with that: below all entries that are significantly "
            "better, above all that are significantly worse. Ties aren't transitive, so ranges "
            "overlap. Nothing is corrected for multiple comparisons; filters change no rank.",
        ),
    ),
}


def explained(name: str, text: Piece) -> Markup:
    """A term that opens its explanation.

    Args:
        name: Its key in `WORDS`.
        text: The term as written in its sentence.
    """
    return explained_as(name, text)


def explained_as(name: str, text: Piece) -> Markup:
    """Like `explained`, for any explanation that is in the page (`explanation`)."""
    return element("button", text, "lb-word", type="button", popovertarget=f"lb-word-{name}")


def explanations() -> Markup:
    """All explanations, to include once in the page."""
    return joined(explanation(name, word) for name, word in WORDS.items())


def explanation(name: str, word: Word) -> Markup:
    """The popover of a term."""
    picture = _PICTURE if name == "collapse" else NOTHING
    text = [element("strong", word.title), picture, *(element("p", each) for each in word.text)]
    return element("div", joined(text), "lb-explained", id=f"lb-word-{name}", popover="auto")


# A curve that rises, then loses more than half of its gain, and the update that counts.
_PICTURE: Final = Markup(
    '<svg viewBox="0 0 240 84" width="240" height="84" role="img" class="lb-collapse lb-c1" '
    'aria-label="A success curve that climbs above the init and falls below half of its gain">'
    '<line class="base" x1="8" x2="232" y1="70" y2="70"/><text x="8" y="82">init</text>'
    '<line class="half" x1="8" x2="232" y1="42" y2="42"/><text x="8" y="38">half of the gain</text>'
    '<polyline class="run" points="8,70 40,52 72,26 104,14 132,22 150,46 178,60 204,66 232,68"/>'
    '<path class="cross" d="M143 39l10 10m0-10l-10 10"/><text x="158" y="48">collapse</text></svg>'
)
