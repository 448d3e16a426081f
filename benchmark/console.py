"""What live views in a terminal have in common."""

import logging
from typing import TextIO


def log_to(stream: TextIO) -> None:
    """Send the log to a stream: handlers keep the one that was there when they were made."""
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:
            handler.setStream(stream)
