"""torchvision's Python part beside a torch that its compiled part was not built for.

PyPI has builds for CUDA only. Their operators cannot be loaded beside a CPU torch, and the import
fails where two of them are described to torch. Reading images needs none: declaring the two is
enough. For tests; folder of the real one: TORCHVISION_FILES.
"""

import os
from pathlib import Path

from torch import library

_OPERATORS = library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
_real = Path(os.environ["TORCHVISION_FILES"]) / "torchvision"
__path__ = [str(_real)]
exec(compile((_real / "__init__.py").read_text("utf-8"), _real / "__init__.py", "exec"))
