"""Chat messages: texts, and images between them."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict

from tasks.chat.images import Image


class TextPart(TypedDict):
    """A text within a message."""

    type: Literal["text"]
    text: str


class ImagePart(TypedDict):
    """An image within a message."""

    type: Literal["image"]
    image: Image


Part: TypeAlias = TextPart | ImagePart


class Message(TypedDict):
    """One chat message, as chat templates take it; its content is one text, or parts in order."""

    role: Literal["system", "user", "assistant"]
    content: str | tuple[Part, ...]


def user_message(text: str, images: Sequence[Image] = ()) -> Message:
    """What a user says, with images behind it; without any, its content is the text alone."""
    if not images:
        return Message(role="user", content=text)
    shown: list[Part] = [ImagePart(type="image", image=image) for image in images]
    return Message(role="user", content=(TextPart(type="text", text=text), *shown))


def text_of(message: Message) -> str:
    """A message's texts, joined."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content if part["type"] == "text")


def images_of(messages: Sequence[Message]) -> tuple[Image, ...]:
    """All images of messages, in order."""
    return tuple(
        part["image"]
        for message in messages
        if not isinstance(message["content"], str)
        for part in message["content"]
        if part["type"] == "image"
    )


def plain_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages as JSON values, an image as its hash: what is hashed. Texts stay as they are."""
    return [{**message, "content": _plain(message["content"])} for message in messages]


def shown_text(message: Message) -> str:
    """A message for people to read, with a note where an image is."""
    content = message["content"]
    if isinstance(content, str):
        return content
    return "\n".join(
        part["text"] if part["type"] == "text" else f"[{image_note(part['image'])}]"
        for part in content
    )


def image_note(image: Image) -> str:
    """What an image is, in a few words."""
    return f"image, {image.width} x {image.height} pixels, {image.sha256[:16]}"


def _plain(content: str | tuple[Part, ...]) -> Any:
    if isinstance(content, str):
        return content
    return [
        dict(part) if part["type"] == "text" else {"type": "image", "sha256": part["image"].sha256}
        for part in content
    ]
