"""Forged texts: a `submission.json` that violates its schema, or looks like something else."""

from collections.abc import Callable
from typing import Any

from tests.benchmark.submissions.tampering.forgery import Forgery
from tests.support.submissions.small import Copy

ABOUT = "submission.json"
PLAIN_NAME = "submission.json, name: may only contain letters from A to Z"
AUTHOR = "submission.json, authors: "


def about(**changes: Any) -> Callable[[Copy], None]:
    """Change fields of `submission.json`."""
    return lambda copy: copy.about(lambda fields: fields.update(changes))


def method(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.about(lambda fields: fields["method"].update(changes))


def data(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.about(lambda fields: fields["training_data"].update(changes))


def checkpoint(**changes: Any) -> Callable[[Copy], None]:
    return lambda copy: copy.about(lambda fields: fields["checkpoints"][0].update(changes))


def without(field: str) -> Callable[[Copy], None]:
    return lambda copy: copy.about(lambda fields: fields.pop(field))


def text(old: str, new: str) -> Callable[[Copy], None]:
    """Change the file's text."""

    def change(copy: Copy) -> None:
        file = copy.folder / ABOUT
        assert old in file.read_text("utf-8")
        file.write_text(file.read_text("utf-8").replace(old, new, 1), "utf-8")

    return change


LINK = "not a plain https address"
FORGERIES = [
    Forgery("future schema", "policy", about(schema_version=2), "schema_version: must be 1"),
    Forgery("schema as a text", "policy", about(schema_version="1"), "schema_version: must be 1"),
    Forgery(
        "typed number", "policy", method(success=0.99), "method.success: there is no such field"
    ),
    Forgery("missing field", "policy", without("contact"), "submission.json, contact: is missing"),
    Forgery(
        "twin fields of all",
        "policy",
        text('"name":', '"name": "The best", "name":'),
        "submission.json: is not valid JSON: a field appears twice",
    ),
    Forgery("bool for a seed", "policy", checkpoint(seed=True), "seed: must be an integer"),
    Forgery("text for a seed", "policy", checkpoint(seed="0"), "seed: must be an integer"),
    Forgery(
        "negative seed", "policy", checkpoint(seed=-1), "seed: Input should be greater than or e"
    ),
    Forgery(
        "NaN parameters", "trained", about(parameters=float("nan")), "parameters: must be an inte"
    ),
    Forgery(
        "infinitely many", "trained", about(parameters=float("inf")), "parameters: must be an inte"
    ),
    Forgery("1e308 parameters", "trained", about(parameters=1e308), "parameters: must be an inte"),
    Forgery("no parameters", "trained", about(parameters=0), "parameters: Input should be greater"),
    Forgery("Cyrillic letters in the name", "policy", about(name="\u0415xpert"), PLAIN_NAME),
    Forgery("line break in the name", "policy", about(name="Expert\n"), PLAIN_NAME),
    Forgery("space behind the name", "policy", about(name="Expert "), PLAIN_NAME),
    Forgery("two spaces in the name", "policy", about(name="The  expert"), PLAIN_NAME),
    Forgery("no name", "policy", about(name=""), "name: is too short"),
    Forgery("long name", "policy", about(name="x" * 81), "name: has more than 80 characters"),
    Forgery(
        "markup in the recipe", "policy", method(recipe="<script>"), "recipe: may only contain"
    ),
    Forgery("Lisu in a name", "policy", about(authors=["\ua4d6RPO"]), AUTHOR + "the word "),
    Forgery(
        "a badge in Lisu",
        "policy",
        about(authors=["\ua4e6\ua4f0\ua4e3\ua4f2\ua4dd\ua4f2\ua4f0\ua4d3"]),
        "'verified' is what the board says",
    ),
    Forgery(
        "a badge in small capitals",
        "policy",
        about(authors=["\u1d20\u1d07\u0280\u026a\ua730\u026a\u1d07\u1d05"]),
        "'verified' is what the board says",
    ),
    Forgery(
        "letter without a shape", "policy", about(authors=["A\u3164"]), AUTHOR + "U+3164 is not a"
    ),
    Forgery(
        "a badge as an author",
        "policy",
        about(authors=["\u2714 Verified by the maintainers"]),
        AUTHOR + "'verified' is what the board says of entries: remove it",
    ),
    Forgery("nobody", "policy", about(authors=[]), "authors: must not be empty"),
    Forgery(
        "hidden contact", "policy", about(contact="a\u2066b"), "contact: U+2066 is not a visible"
    ),
    Forgery(
        "hidden description", "policy", method(description="a\u200db"), "description: U+200D is"
    ),
    Forgery(
        "bell in a description", "policy", method(description="a\x07"), "U+0007 is not a visible"
    ),
    Forgery("hidden statement", "trained", data(statement="a\ue000"), "statement: U+E000 is not a"),
    Forgery("lone surrogate", "policy", text('"Ada Lovelace"', '"\\ud800"'), "Invalid JSON: "),
    Forgery("link that is not https", "policy", method(code="http://example.org"), f"code: {LINK}"),
    Forgery(
        "broken link", "policy", method(code="https://[example.org"), "method.code: Invalid IPv6"
    ),
    Forgery(
        "recipe that claims a badge",
        "policy",
        method(recipe="expert re-run"),
        "'re-run' is what the board says of entries",
    ),
    Forgery(
        "panels as a number", "trained", data(panel_episodes=0), "panel_episodes: must be false"
    ),
    Forgery(
        "trained on a panel", "trained", data(panel_episodes=True), "panel_episodes: must be false"
    ),
    Forgery("no such day", "policy", about(date="2026-02-30"), "date: day is out of range"),
    Forgery(
        "digits of another script", "policy", about(date="\u0662026-01-02"), "date: must be a date"
    ),
    Forgery(
        "name of the example", "policy", about(name="My method on tiny-sokoban"), "is the exampl"
    ),
    Forgery("author of the example", "policy", about(authors=["A. Name"]), "is the example's tex"),
    Forgery(
        "link of the example",
        "policy",
        method(code="https://example.org/my-code"),
        "is the example's",
    ),
    Forgery(
        "weights of a policy", "policy", about(weights="https://example.org/w"), "remove weights"
    ),
    Forgery(
        "weights by http", "trained", about(weights="http://example.org/w"), f"weights: {LINK}"
    ),
    Forgery(
        "base model that claims a badge", "trained", about(base_model="X (verified)"), "remove"
    ),
    Forgery(
        "weights in a repository that cannot be",
        "trained",
        about(weights=f"https://huggingface.co/a..b/c/tree/{'a' * 40}"),
        "is not the name of a hub model",
    ),
    Forgery("nearly a field", "policy", about(contcat="x"), "no such field; did you mean contact?"),
    Forgery("a day to come", "policy", about(date="9999-12-31"), "9999-12-31 is in the future"),
    Forgery(
        "other day", "policy", about(date="2025-01-02"), "date: 2025-01-02, but the folder is named"
    ),
]
