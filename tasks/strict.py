"""Strict schemas for external input, and one-line messages about violations."""

from pydantic import BaseModel, ConfigDict, ValidationError


class Strict(BaseModel):
    """A schema without extra fields, without coercion, without changes."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def first_fault(error: ValidationError) -> str:
    """What is wrong, as one line: the field and the reason.

    An unknown field comes first: it often explains why another one is missing.
    """
    faults = error.errors(include_url=False, include_input=False)
    fault = next((fault for fault in faults if fault["type"] == "extra_forbidden"), faults[0])
    where = ".".join(str(part) for part in fault["loc"])
    return f"{where}: {fault['msg']}" if where else fault["msg"]
