"""The command line in several processes under accelerate's FSDP2; run by all of them at once.

python fsdp_train.py ARGUMENT...

accelerate shards only on several GPUs. A CPU takes the same path if accelerate's state says that
there are GPUs: the collectives then use gloo.
"""

import sys

import torch
from accelerate.state import PartialState
from accelerate.utils import DistributedType

from benchmark.cli.main import main

if __name__ == "__main__":
    torch.set_num_threads(1)
    assert PartialState(cpu=True).num_processes > 1
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    sys.exit(main(sys.argv[1:]))
