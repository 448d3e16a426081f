"""Shows a model's prompts and answers without affecting the run."""

from collections.abc import Callable

from benchmark.engines.core.base import Engine, Generation, Request
from benchmark.engines.core.metered import MeteredEngine


class WatchedEngine(MeteredEngine):
    """Passes requests on to another engine and shows the first ones.

    Args:
        engine: Answers the requests; entered and left together with this one.
        first: Number of requests to show.
        show: Called with the number of a request, from 1, the request, its prompt as the model got
            it (None if only a server knows it) and the answer.
    """

    def __init__(
        self,
        engine: Engine,
        first: int,
        show: Callable[[int, Request, str | None, Generation], None],
    ) -> None:
        super().__init__(engine)
        self._left = self._of = first
        self._show = show

    async def generate(self, request: Request) -> Generation:
        """Pass a request on; see `Engine.generate`."""
        generation = await super().generate(request)
        if self._left:
            self._left -= 1
            number = self._of - self._left
            prompt = await self._engine.prompt_text(request, generation)
            self._show(number, request, prompt, generation)
        return generation
