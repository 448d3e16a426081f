"""Checks once whether servers accept images, before episodes fail because of it."""

import asyncio
from collections.abc import Iterable, Sequence

import aiohttp

from benchmark.engines.core.base import EngineError, PromptTooLong, Request, Sampling
from benchmark.engines.server.attempt import Attempts
from benchmark.engines.server.dialect import Dialect, is_limit_reached
from benchmark.engines.server.endpoint import Endpoint
from benchmark.engines.server.exchange import RetryableError
from tasks.chat.messages import Message, image_note, images_of
from tasks.errors import UserError


class FirstImages:
    """Sends the first prompt with images to every server, for one token.

    Args:
        dialect: Request format of the servers.
        attempts: Sends requests.
        sampling: Sampling settings for the token.
    """

    def __init__(self, dialect: Dialect, attempts: Attempts, sampling: Sampling) -> None:
        self._dialect = dialect
        self._attempts = attempts
        self._sampling = sampling
        self._lock = asyncio.Lock()
        self._taken = False

    async def check(
        self, session: aiohttp.ClientSession, endpoints: Iterable[Endpoint], request: Request
    ) -> None:
        """Send the prompt, unless all servers have accepted images before.

        Raises:
            UserError: A server refuses them.
            PromptTooLong: The context leaves no room for a response.
        """
        async with self._lock:
            if self._taken:
                return
            fields = self._dialect.fields(request.messages, self._sampling, 0, chat=request.chat)
            for endpoint in endpoints:
                try:
                    await self._attempts.send(session, endpoint, fields, join_reasoning=True)
                except PromptTooLong:
                    raise
                except EngineError as error:
                    if not is_limit_reached(str(error)):
                        raise UserError(_refusal(endpoint, request.messages, error)) from error
                except RetryableError:
                    return  # the request itself is retried; the next one repeats this check
            self._taken = True


def _refusal(endpoint: Endpoint, messages: Sequence[Message], error: EngineError) -> str:
    return (
        f"{endpoint.label} refuses a prompt with an image ({image_note(images_of(messages)[0])}): "
        f"{error}; serve a vision-language model, or choose the task's text view"
    )
