"""Bounded types for external input: texts, hashes, numbers."""

from typing import Annotated

from pydantic import Field, StringConstraints

MAX_NAME = 200
MAX_TEXT = 1_000_000
MAX_TURNS = 1_000
MAX_TOKENS = 1_000_000
MAX_INFO = 65_536
"""Characters of a turn's further facts; no task here can write half as many."""
MAX_INFO_VALUES = 1_000
"""JSON values in them, containers included; a value takes ten times the memory of its text."""
MAX_INFO_DEPTH = 64
"""Levels of lists and objects in them: readers of JSON stop at about 200, a record's included."""

Name = Annotated[str, StringConstraints(min_length=1, max_length=MAX_NAME)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Hash = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
"""The start of a SHA-256. A replay computes them again, so they only have to show where it differs;
whole ones, two a turn, would be most of a compressed record."""
Count = Annotated[int, Field(ge=0, le=10**12)]
TokenId = Annotated[int, Field(ge=0, lt=2**31)]
Range = Annotated[tuple[Count, Count], Field(strict=False)]
Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e9, le=1e9)]
