"""The shipped Sokoban init with chat templates of reasoning models: real weights, real files."""

import shutil
from pathlib import Path

from baselines.inits.registry import read_registry

OPENS = "<|im_start|>assistant\n<think>"
"""As in the templates of R1's distilled models and Qwen3-Thinking, but without the newline, which
this small model has never seen there."""
HYBRID = (
    "<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% endif %}"
)
"""As in Qwen3's template: an empty thought if `enable_thinking` is false."""


def thinking_model(folder: Path, opening: str = OPENS) -> Path:
    """Copy `tiny-sokoban` with another generation prompt.

    Args:
        folder: A new folder.
        opening: End of the template's generation prompt, in Jinja.

    Returns:
        The folder.
    """
    source = read_registry()["tiny-sokoban"].folder
    assert source is not None
    shutil.copytree(source, folder)
    messages = "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    template = (
        f"{{% for message in messages %}}{messages}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{opening}{{% endif %}}"
    )
    (folder / "chat_template.jinja").write_text(template, "utf-8")
    return folder
