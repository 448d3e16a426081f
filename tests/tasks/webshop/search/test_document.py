"""The searchable text of a product."""

from tasks.webshop.search.document import document_text


def test_title_description_first_bullet_and_options() -> None:
    text = document_text(
        "Wool Hat", "Warm.", ["Knitted", "Grey"], {"color": ["Red", "blue"], "size": ["m"]}
    )
    assert text == "wool hat warm. knitted color: red, blue, and size: m"


def test_what_is_missing() -> None:
    assert document_text("Hat", "", [], {}) == "hat  "
