"""Which part of a response the world sees.

Under the standard protocol it is all of it. Under `THINKING` a response is a thought and an answer:

- The thought is everything up to and including the first `</think>`. Whether the model, the chat
  template or the join of a server's reasoning field has opened it makes no difference.
- Without a `</think>`, a response that begins with `<think>` is a thought that was cut off, and has
  no answer; any other response is an answer alone (of a model that hides its thoughts).
- The world sees the answer. Where the task asks for `<think>...</think><action>...</action>` and
  the answer has no `<think>` of its own, an empty one is put before it: the model has thought.

The rule is part of the protocol: a change here needs another name of it.
"""

import re
from typing import Final

from benchmark.evaluation.protocol import THINKING, PanelProtocol
from tasks.response import CONTRACT

_OPEN: Final = re.compile("<think>", re.IGNORECASE | re.ASCII)
_CLOSE: Final = re.compile("</think>", re.IGNORECASE | re.ASCII)


def read_by_world(protocol: PanelProtocol, response: str) -> str:
    """What the world sees of a response; linear in its length, never raises."""
    if protocol.name != THINKING:
        return response
    answer = _answer(response)
    if protocol.contract == CONTRACT and not _OPEN.search(answer):
        return f"<think></think>{answer}"
    return answer


def _answer(response: str) -> str:
    closed = _CLOSE.search(response)
    if closed is not None:
        return response[closed.end() :]
    return "" if _OPEN.match(response.lstrip()) else response
