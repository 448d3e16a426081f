"""The interface of an engine: requests in, generations out."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self

from benchmark.hosts.base import LiveEpisode
from tasks.chat.messages import Message
from tasks.errors import UserError

if TYPE_CHECKING:
    import torch

FinishReason = Literal["stop", "length"]


class EngineError(Exception):
    """One request failed for good: the engine refused it or retries ran out.

    The episode is recorded as failed, with this message as its cause.
    """


class PromptTooLong(EngineError):
    """The model's context leaves no room for a response to this prompt."""

    def __init__(self, prompt_tokens: int, context: int) -> None:
        self._facts = prompt_tokens, context
        super().__init__(
            f"the prompt has {prompt_tokens} tokens and the model's context "
            f"{context}, which leaves no room for a response; use a model with a "
            "longer context"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Across processes, too, it is this error."""
        return type(self), self._facts


class EngineDown(Exception):
    """The engine cannot serve any request any more; the run stops and can be resumed."""


class EngineNotStarted(EngineDown):
    """The engine could not be started; nothing was played that could be resumed."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn; part of the protocol.

    Attributes:
        temperature: 0 is greedy decoding.
        top_p: Nucleus; 1 is off.
        top_k: Number of candidates; 0 is off.
        max_tokens: Longest response, in tokens. The room that the model's context leaves after
            the prompt limits it further.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 512

    def __post_init__(self) -> None:
        """Give numbers one form: 0, 0.0 and -0.0 are one setting and must have one hash."""
        object.__setattr__(self, "temperature", float(self.temperature) + 0.0)
        object.__setattr__(self, "top_p", float(self.top_p) + 0.0)

    # Read from outside by pydantic, as a part of the protocol.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "allow_inf_nan": False}


GREEDY: Final = Sampling()
"""As most panels have it."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """How messages become a prompt and an answer becomes a response; part of the protocol.

    Attributes:
        template_kwargs: Variables for the chat template, such as `enable_thinking`.
        extra_body: Further fields of a request to a server, such as `reasoning_effort`; engines in
            this process take none.
        join_reasoning: Reasoning that a server returns in a field of its own is put before the
            answer, as `<think>reasoning</think>answer`. Otherwise such a server is refused.
    """

    template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    join_reasoning: bool = False


PLAIN_CHAT: Final = ChatOptions()
"""As the standard protocol has it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One turn to be answered.

    Attributes:
        messages: The prompt.
        sampling: How to draw.
        seed: Seed of this turn's draws, below 2**63.
        affinity: Requests with the same number share most of their prompt (one episode); engines
            with several servers keep them together.
        episode: The running episode. Only scripted policies may look at it.
        prompt_ids: Token ids of the prompt, taken as they are in place of the messages, so that
            what a model wrote need not be tokenized again; None to render the messages. Servers
            other than vLLM take no token ids: an `EngineError`.
        previous: The generation whose text, or the beginning of it, is the last message but one:
            engines in this process then go on from its token ids. So do vLLM servers where the
            engine knows the model's tokenizer; others render the messages.
        chat: How messages become a prompt and an answer becomes a response.
    """

    messages: tuple[Message, ...]
    sampling: Sampling
    seed: int
    affinity: int
    episode: LiveEpisode
    prompt_ids: tuple[int, ...] | None = None
    previous: "Generation | None" = None
    chat: ChatOptions = PLAIN_CHAT


@dataclass(frozen=True, slots=True)
class Generation:
    """One response.

    Attributes:
        text: The response as the environment sees it, without the end-of-turn token. A `<think>`
            that the chat template has written at the end of the prompt is its beginning.
        finish_reason: `length` if the token limit or the end of the context cut it.
        prompt_tokens: Length of the prompt; None where there are no tokens.
        response_tokens: Length of the response, end-of-turn token included; None likewise.
        log_prob: Sum of the log-probabilities of the response's tokens under the full,
            untempered distribution; None where the engine does not give them.
        prompt_ids: Token ids of the prompt, where the engine gives them.
        response_ids: Token ids of the response, where the engine gives them.
        token_log_probs: The addends of `log_prob`.
        weights_versions: Versions of the weights that drew the first and the last token, as given
            to `Engine.load_weights`; 0 is the checkpoint. Servers do not say it: theirs are the
            versions when the request was sent and when the answer came, so that no token is from
            older weights than the first or newer ones than the second.
    """

    text: str
    finish_reason: FinishReason
    prompt_tokens: int | None = None
    response_tokens: int | None = None
    log_prob: float | None = None
    prompt_ids: tuple[int, ...] | None = None
    response_ids: tuple[int, ...] | None = None
    token_log_probs: tuple[float, ...] | None = None
    weights_versions: tuple[int, int] = (0, 0)


def checked_version(version: object) -> int:
    """A number of weights as `Engine.load_weights` takes it.

    Raises:
        UserError: It is not a whole number of at least 0.
    """
    if isinstance(version, bool) or not isinstance(version, int) or version < 0:
        raise UserError(f"a weights version must be an integer of at least 0, not {version!r}")
    return version


class Engine(ABC):
    """Answers requests, as many at once as it is given.

    Use as an asynchronous context manager: entering starts what has to run, leaving ends it.
    """

    name: str

    async def __aenter__(self) -> Self:
        """Start the engine.

        Raises:
            UserError: The model or the server cannot be used as it is.
        """
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the engine; requests still waiting are dropped."""

    @abstractmethod
    async def generate(self, request: Request) -> Generation:
        """Answer one request.

        Raises:
            EngineError: This request cannot be answered.
            EngineDown: No request can be answered any more.
            UserError: The model cannot be used as it is: its logits are not finite, say.
        """

    async def prompt_text(self, request: Request, generation: Generation) -> str | None:
        """The prompt of an answered request as the model got it, with the chat template applied.

        Returns:
            None where only the server knows it.
        """
        del request, generation
        return None

    def client(self) -> AbstractContextManager[None]:
        """A client that sends one request at a time, for as long as the context is open.

        An engine whose batches must not depend on time waits for its clients; others need none.
        A client has one request under way at a time, and waits for nothing that another client's
        answer brings about.
        """
        return nullcontext()

    def step_with(self, other: "Engine") -> None:
        """Serve the same clients as another engine, before either has one.

        Engines whose batches must not depend on time advance together from now on; others need not.

        Args:
            other: The engine; its clients (`client`) are those of both.

        Raises:
            TypeError: Batches of this engine must not depend on time, and those of the other do.
        """
        del other

    async def load_weights(
        self, weights: "Iterable[tuple[str, torch.Tensor]]", version: int
    ) -> None:
        """Replace the model's weights while the engine runs.

        When the call returns, every token is drawn from the new weights, and no keys and values
        that were computed under older ones are used for new requests. Requests that are under way
        go on: their next tokens come from the new weights and look back at the keys and values
        of the old ones (PipelineRL, arXiv:2509.19128, does the same) or, on vLLM's servers, at
        those computed again. A trainer without such a mixture calls this only when nothing is
        under way.

        Args:
            weights: All tensors of the model under their names in the state dict of transformers,
                of any floating-point type and on any device. Of tensors that are one in the model
                (a tied `lm_head.weight`), one name is enough. They are taken in whole before
                anything is changed, and must not change until the call returns.
            version: Number of these weights for `Generation.weights_versions`, at least 0.

        Raises:
            UserError: This engine's weights cannot be replaced, or a tensor is missing,
                unexpected or of another shape; nothing was changed.
            EngineDown: The engine failed while its weights were being replaced.
        """
        raise UserError(
            f"the weights of the {self.name} engine cannot be replaced; train with "
            "transformers, vllm or vLLM servers"
        )

    async def sleep(self) -> None:
        """Give device memory back until new weights come, where the engine can; nothing is asked.

        Raises:
            EngineDown: The engine failed.
        """

    async def weight_checksums(self) -> Mapping[str, str]:
        """A SHA-256 of every tensor of the model as the engine holds it.

        Equal weights have equal checksums in one engine. Names and types are the engine's own: it
        may join tensors or round them, so that checksums of two engines are not comparable.

        Raises:
            UserError: This engine cannot say.
            EngineDown: The engine failed.
        """
        raise UserError(f"the {self.name} engine gives no checksums of its weights")

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Facts for `run.json`: kind, versions, data type, context length, device."""
