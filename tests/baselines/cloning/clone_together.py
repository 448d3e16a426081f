"""One of several processes that clone a recipe: `clone_together.py RECIPE OUT TOKENS_OF_A_PASS`."""

import sys
from pathlib import Path

import torch

from baselines.cloning import passes
from baselines.cloning.bc import clone
from baselines.cloning.recipe import read_recipe

if __name__ == "__main__":
    recipe, out, tokens = sys.argv[1:]
    torch.set_num_threads(1)
    passes._PACKED = int(tokens)
    clone(read_recipe(Path(recipe)), Path(out), env_processes=1)
