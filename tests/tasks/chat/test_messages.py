"""Messages with images, and the images themselves."""

import base64
import hashlib
import io
import pickle

import pytest
from PIL import Image as pillow

from tasks.chat.images import MAX_SIDE, Image, pixels_sha256
from tasks.chat.messages import (
    Message,
    images_of,
    plain_messages,
    shown_text,
    text_of,
    user_message,
)
from tasks.errors import UserError
from tasks.sokoban.pixels import draw_board

RED = Image.of(pillow.new("RGB", (2, 1), (255, 0, 0)))


def test_the_hash_is_of_size_and_pixels() -> None:
    expected = hashlib.sha256(b"2 1\n\xff\x00\x00\xff\x00\x00").hexdigest()
    assert RED.sha256 == expected == pixels_sha256(2, 1, b"\xff\x00\x00" * 2)
    assert Image.of(pillow.new("RGB", (1, 2), (255, 0, 0))).sha256 != expected


def test_the_hash_does_not_depend_on_the_encoder() -> None:
    file = io.BytesIO()
    RED.picture().save(file, "PNG", compress_level=0)
    assert file.getvalue() != RED.data
    assert Image.of(pillow.open(file)).sha256 == RED.sha256


def test_a_url_holds_the_file() -> None:
    head, _, data = RED.data_url.partition(",")
    assert head == "data:image/png;base64"
    assert base64.b64decode(data) == RED.data
    assert RED.picture().getpixel((1, 0)) == (255, 0, 0)


def test_an_image_that_is_drawn_on_demand_is_the_same() -> None:
    calls = []

    def draw() -> pillow.Image:
        calls.append(1)
        return pillow.new("RGBA", (2, 1), (255, 0, 0, 9))

    image = Image.drawn(draw)
    assert image == RED and len(calls) == 1
    assert image.picture().tobytes() == RED.picture().tobytes()
    assert image.picture().mode == "RGB"
    assert [image.data, image.data] == [RED.data] * 2
    assert len(calls) == 4, "it is encoded once"
    in_another_process = pickle.loads(pickle.dumps(draw_board(("#@",))))
    assert in_another_process.data == draw_board(("#@",)).data


def test_an_image_beyond_the_limit_is_refused() -> None:
    with pytest.raises(UserError, match=f"{MAX_SIDE + 1} x 1 pixels is too large"):
        Image.of(pillow.new("1", (MAX_SIDE + 1, 1)))


def test_a_message_without_images_is_a_text() -> None:
    message = user_message("go")
    assert message == {"role": "user", "content": "go"}
    assert plain_messages([message]) == [{"role": "user", "content": "go"}]
    assert (text_of(message), shown_text(message)) == ("go", "go")
    assert images_of([message]) == ()


def test_a_message_with_an_image_has_parts() -> None:
    message = user_message("go", [RED])
    assert message["content"] == (
        {"type": "text", "text": "go"},
        {"type": "image", "image": RED},
    )
    answer: Message = {"role": "assistant", "content": "up"}
    assert images_of([message, answer, message]) == (RED, RED)
    assert plain_messages([message]) == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "go"}, {"type": "image", "sha256": RED.sha256}],
        }
    ]
    assert text_of(message) == "go"
    assert shown_text(message) == f"go\n[image, 2 x 1 pixels, {RED.sha256[:16]}]"
