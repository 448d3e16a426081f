"""Images that a task shows: encoded bytes, and a hash of the pixels.

Encoders differ between versions of their libraries, pixels do not: records hold the pixels' hash.
Pillow is imported when an image is made, so that text tasks do not load it.
"""

import base64
import hashlib
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Self

from tasks.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MAX_SIDE: Final = 4096
"""Longest side of an image, in pixels."""


@dataclass(frozen=True)
class Image:
    """One image.

    Attributes:
        width: In pixels.
        height: In pixels.
        sha256: Hash of size and pixels, in 64 hexadecimal digits (`pixels_sha256`).
        source: The image as PNG, or what draws it.
    """

    width: int
    height: int
    sha256: str
    source: "bytes | Callable[[], Picture]" = field(repr=False, compare=False)

    @classmethod
    def of(cls, picture: "Picture") -> Self:
        """Encode a picture; transparency is dropped.

        Raises:
            UserError: A side is longer than `MAX_SIDE`.
        """
        return cls(*_measured(picture), _png(picture))

    @classmethod
    def drawn(cls, draw: "Callable[[], Picture]") -> Self:
        """An image that is drawn again whenever it is looked at, and encoded if its file is wanted.

        A replay wants hashes alone, and encoding takes several times as long as drawing.

        Args:
            draw: Gives the same picture every time; transparency is dropped. To be played in other
                processes, it must be possible to pickle it: a `functools.partial` of a function of
                a module, for example.

        Raises:
            UserError: A side is longer than `MAX_SIDE`.
        """
        return cls(*_measured(draw()), draw)

    @cached_property
    def data(self) -> bytes:
        """The image as PNG."""
        return self.source if isinstance(self.source, bytes) else _png(self.source())

    @property
    def data_url(self) -> str:
        """The image as a URL that holds it."""
        return f"data:image/png;base64,{base64.b64encode(self.data).decode('ascii')}"

    def picture(self) -> "Picture":
        """The image in RGB."""
        if isinstance(self.source, bytes):
            from PIL import Image as pillow

            return pillow.open(io.BytesIO(self.source)).convert("RGB")
        return self.source().convert("RGB")


def _measured(picture: "Picture") -> tuple[int, int, str]:
    """Width, height and hash of a picture that is not too large."""
    width, height = picture.size
    if max(width, height) > MAX_SIDE:
        raise UserError(
            f"an image of {width} x {height} pixels is too large: no side may be longer than "
            f"{MAX_SIDE:,}"
        )
    return width, height, pixels_sha256(width, height, picture.convert("RGB").tobytes())


def _png(picture: "Picture") -> bytes:
    file = io.BytesIO()
    picture.convert("RGB").save(file, "PNG")
    return file.getvalue()


def pixels_sha256(width: int, height: int, pixels: bytes) -> str:
    """SHA-256 of an image's size and pixels.

    Args:
        width: In pixels.
        height: In pixels.
        pixels: Three bytes (red, green, blue) for each pixel, row by row.
    """
    return hashlib.sha256(f"{width} {height}\n".encode() + pixels).hexdigest()
