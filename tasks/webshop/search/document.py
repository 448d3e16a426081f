"""The searchable text of a product."""

from collections.abc import Mapping, Sequence


def document_text(
    title: str, description: str, bullets: Sequence[str], options: Mapping[str, Sequence[str]]
) -> str:
    """The text of a product that is indexed, in lower case: of the bullets only the first.

    Options read `name: value, value, and name: value`, in their order.
    """
    choices = ", and ".join(f"{name}: {', '.join(values)}" for name, values in options.items())
    return " ".join((title, description, *bullets[:1], choices)).lower()
