"""Files of claims: mistakes in them, and their error messages."""

from pathlib import Path

import pytest

from baselines.study.claims import read_claims
from tasks.errors import UserError


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", "give one rule"),
        (", best: grpo, learns: [grpo]", "give one rule"),
        (", best: grpo, by: 0.1", "by and gain belong to learns"),
        (", holds: grpo, among: [gspo]", "among belongs to best"),
        (", learns: []", "learns"),
        (", compared: grpo", "compared and against belong together"),
        (", holds: grpo, against: [u]", "compared and against belong together"),
        (", holds: grpo, above: 0.1", "above and at belong to compared"),
        (", compared: grpo, against: [u, v], at: seconds", "at: seconds compares with one track"),
        (", holds: grpo, also: [u]", "also belongs to collapses with holds"),
        (", better: [grpo]", "better"),
        (", bets: grpo", "bets: Extra inputs"),
    ],
)
def test_a_claim_has_one_rule(tmp_path: Path, rule: str, message: str) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(f"claims: [{{claim: So., track: t{rule}}}]")
    with pytest.raises(UserError) as refused:
        read_claims(path)
    assert message in str(refused.value)
    assert "claims.0" in str(refused.value)


CLAIM = "claims: [{claim: So., track: "
PILOT = "pilots: [{why: So., seed: 0, track: "


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"{CLAIM}mth, holds: grpo}}]", "there is no track 'mth'; did you mean math?"),
        (
            f"{CLAIM}fixed, compared: grpo, against: [mixe]}}]",
            "there is no track 'mixe'; did you mean mixed or fixed?",
        ),
        (
            f"{CLAIM}fixed, also: [mat], collapses: grpo, holds: gspo}}]",
            "there is no track 'mat'; did you mean math or fast?",
        ),
        (
            f"{CLAIM}fixed, holds: gpro}}]",
            "there is no recipe 'gpro'; did you mean gspo, grpo or gigpo?",
        ),
        (f"{PILOT}mth, recipe: grpo}}]", "there is no track 'mth'; did you mean math?"),
        (
            f"{PILOT}math, recipe: gpro}}]",
            "there is no recipe 'gpro'; did you mean gspo, grpo or gigpo?",
        ),
    ],
)
def test_a_claim_or_a_pilot_run_of_nothing_is_a_mistake(
    tmp_path: Path, tiny_tracks: Path, line: str, message: str
) -> None:
    del tiny_tracks
    path = tmp_path / "claims.yaml"
    path.write_text(line)
    with pytest.raises(UserError) as refused:
        read_claims(path)
    assert str(refused.value) == f"{path}: 'So.': {message}"
