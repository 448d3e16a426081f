"""Shared code of live views in a terminal."""

import logging
from typing import TextIO


def log_to(stream: TextIO) -> None:
    """Redirect the log to a stream; handlers otherwise keep the one that they were created with."""
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:
            handler.setStream(stream)
