"""Images that a task shows: encoded bytes, and a hash of the pixels.

Encoders differ between versions of their libraries, pixels do not: records hold the pixels' hash.
Pillow is imported when an image is made, so that text tasks do not load it.
"""

import base64
import hashlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from tasks.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

MAX_SIDE: Final = 4096
"""Longest side of an image, in pixels."""
PNG: Final = "image/png"


@dataclass(frozen=True, slots=True)
class Image:
    """One image.

    Attributes:
        data: The encoded file.
        media_type: Its type, `image/png`.
        width: In pixels.
        height: In pixels.
        sha256: Hash of size and pixels, in 64 hexadecimal digits (`pixels_sha256`).
    """

    data: bytes
    media_type: str
    width: int
    height: int
    sha256: str

    @classmethod
    def of(cls, picture: "Picture") -> Self:
        """Encode a picture as PNG; transparency is dropped.

        Raises:
            UserError: A side is longer than `MAX_SIDE`.
        """
        width, height = picture.size
        if max(width, height) > MAX_SIDE:
            raise UserError(
                f"an image of {width} x {height} pixels is too large: no side may be longer than "
                f"{MAX_SIDE:,}"
            )
        plain = picture.convert("RGB")
        file = io.BytesIO()
        plain.save(file, "PNG")
        digest = pixels_sha256(width, height, plain.tobytes())
        return cls(file.getvalue(), PNG, width, height, digest)

    @property
    def data_url(self) -> str:
        """The image as a URL that holds it."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"

    def picture(self) -> "Picture":
        """The image, decoded, in RGB."""
        from PIL import Image as pillow

        return pillow.open(io.BytesIO(self.data)).convert("RGB")


def pixels_sha256(width: int, height: int, pixels: bytes) -> str:
    """SHA-256 of an image's size and pixels.

    Args:
        width: In pixels.
        height: In pixels.
        pixels: Three bytes (red, green, blue) for each pixel, row by row.
    """
    return hashlib.sha256(f"{width} {height}\n".encode() + pixels).hexdigest()
