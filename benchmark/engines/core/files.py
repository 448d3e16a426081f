"""JSON files of model folders."""

import json
from pathlib import Path
from typing import Any

from tasks.errors import UserError


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        UserError: The file is not one JSON object.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path} must be a JSON object")
    return value
