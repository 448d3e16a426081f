"""When two identities refer to the same weights."""

import pytest

from benchmark.models import ModelIdentity, same_weights

ONE, OTHER = "1" * 64, "2" * 64
AT = "0123456789" * 4


def hub(name: str, revision: str | None = AT, sha256: str | None = None) -> ModelIdentity:
    return ModelIdentity(name=name, kind="hub", revision=revision, sha256=sha256)


def folder(name: str, sha256: str) -> ModelIdentity:
    return ModelIdentity(name=name, kind="folder", sha256=sha256)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (hub("Owner/Name"), hub("owner/name"), True),
        (hub("Owner/Name"), hub("Owner/Name", sha256=ONE), True),
        (hub("Owner/Name", sha256=OTHER), hub("OWNER/NAME", sha256=ONE), True),
        (hub("Owner/Name"), hub("Other/Name2"), True),
        (hub("Owner/Name", None), hub("Owner/Name2", None), False),
        (hub("Owner/Name"), hub("Owner/Name", revision="a" * 40), False),
        (folder("a", ONE), folder("b", ONE), True),
        (folder("a", ONE), folder("a", OTHER), False),
        (folder("a", ONE), ModelIdentity(name="i", kind="init", sha256=ONE), True),
        (folder("Owner/Name", ONE), hub("Owner/Name", sha256=ONE), False),
        (ModelIdentity(name="expert", kind="policy"), folder("expert", ONE), False),
    ],
)
def test_weights_are_told_apart_by_what_cannot_be_invented(
    one: ModelIdentity, other: ModelIdentity, same: bool
) -> None:
    assert same_weights(one, other) == same_weights(other, one) == same
