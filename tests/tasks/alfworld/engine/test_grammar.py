"""Texts: templates, conditions, lists, and the edge cases of TextWorld's parser."""

import pytest

from tasks.alfworld.engine.facts import Facts
from tasks.alfworld.engine.grammar import Grammar, GrammarError, Scene, read_query, read_text
from tasks.alfworld.engine.names import display_names

SOURCE = '''
grammar :: """
    {
        "greeting": [
            {"condition": "red(a:thing)", "rhs": "A red {a.name}#end#"},
            {"rhs": "{a.indefinite} {a.name}#end#"}
        ],
        "end": [{"rhs": "!"}],
        "all": [{"rhs": "I see [{t.indefinite + ' ' + t.name | on(t:thing, x:spot)}]."}],
        "pairs": [{"rhs": "[{t.name + '/' + u.name | on(t:thing, x:spot) & on(u:thing, x:spot)}]"}],
        "list_empty": [{"rhs": "nothing"}],
        "list_separator": [{"rhs": ", "}],
        "list_last_separator": [{"rhs": ", and "}]
    }
""";

action Greet {
    template :: "greet {a}";
    feedback :: "#greeting#";
}

action Wave {
    template :: "wave";
    feedback :: "#wave.feedback#";

    grammar :: """
        {
            "wave.feedback": [{"rhs": "\\nYou wave."}]
        }
    """;
}
'''
NAMES = {"a1": "ant 1", "b1": "bee 1", "c1": "cat 1", "x1": "box 1"}


def _scene(*on: str, red: tuple[str, ...] = ()) -> Scene:
    facts: dict[str, list[tuple[str, ...]]] = {
        "on": [(thing, "x1") for thing in on],
        "red": [(thing,) for thing in red],
    }
    return Scene(Facts(facts), NAMES)


def test_the_first_rule_that_matches() -> None:
    grammar = Grammar(SOURCE)
    assert grammar.actions == {"greet", "wave"}
    assert grammar.command("greet", _scene(), {"a": "a1"}) == "greet ant 1"
    assert grammar.feedback("greet", _scene(red=("a1",)), {"a": "a1"}) == "A red ant 1!"
    assert grammar.feedback("greet", _scene(red=("b1",)), {"a": "a1"}) == "a ant 1!"


@pytest.mark.parametrize(
    ("on", "text"),
    [
        ((), "I see nothing."),
        (("b1",), "I see a bee 1."),
        (("b1", "a1"), "I see a ant 1, and a bee 1."),
        (("c1", "b1", "a1"), "I see a ant 1, a bee 1, and a cat 1."),
    ],
)
def test_lists(on: tuple[str, ...], text: str) -> None:
    assert Grammar(SOURCE).text("all", _scene(*on), {"x": "x1"}) == text


def test_different_variables_stand_for_different_things() -> None:
    text = Grammar(SOURCE).text("pairs", _scene("a1", "b1"), {})
    assert text == "ant 1/bee 1, and bee 1/ant 1"


def test_white_space_at_the_start_is_dropped() -> None:
    assert Grammar(SOURCE).feedback("wave", _scene(), {}) == "You wave."


def test_what_does_not_fit_ends_a_text() -> None:
    """The package's texts contain such a case: a brace that was never opened."""
    assert read_text("{t.name} there)} lost")(Grammar(""), _scene(), {"t": "a1"}) == "ant 1 there)"


@pytest.mark.parametrize(
    "source",
    [
        "{__import__('os').system('true')}",
        "{t.__class__}",
        "{t.name * 9}",
        "{t.name.upper()}",
        "{(lambda: 1)()}",
        "{t.}",
    ],
)
def test_only_the_expressions_of_this_grammar(source: str) -> None:
    with pytest.raises(GrammarError, match="not understood"):
        read_text(source)


@pytest.mark.parametrize("source", ["on(t:thing", "on t", "", "on(t:thing) | red(t:thing)"])
def test_queries_that_are_none(source: str) -> None:
    with pytest.raises(GrammarError, match="not understood"):
        read_query(source)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("nonsense", "'nonsense' is not understood"),
        ('grammar :: """{"a": [}""";', "rules cannot be read"),
        ('grammar :: """{"a": [{"condition": "x(y:z)"}]}""";', "rules cannot be read"),
        ("action Run {\n}", "run has no template"),
    ],
)
def test_grammars_that_are_none(source: str, reason: str) -> None:
    with pytest.raises(GrammarError, match=reason):
        Grammar(source)


def test_a_rule_that_is_not_there() -> None:
    with pytest.raises(GrammarError, match="no rule for 'dance'"):
        Grammar(SOURCE).text("dance", _scene(), {})


def test_names() -> None:
    ids = ["cup_bar_01", "cup_bar_00", "sink_bar_00_bar_sinkbasin", "sink_bar_00", "agent1"]
    assert display_names(ids) == {
        "agent1": "agent1 ",
        "cup_bar_00": "cup 2",
        "cup_bar_01": "cup 1",
        "sink_bar_00": "sink 1",
        "sink_bar_00_bar_sinkbasin": "sinkbasin 1",
    }
