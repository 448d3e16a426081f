"""Packs token sequences as a prefix tree: shared prefixes are stored once.

Rows of a rollout share instructions, task texts, and often whole prompts. Packed this way, a shared
prefix token is computed once, and nothing is padded. The packed order is depth-first, so all
descendants of a node form one contiguous range after it; this is all that attention has to know
(`tree_attention`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch

Ids = npt.NDArray[np.integer]

GRAIN = 16
"""Sequences split only at multiples of this number of tokens: shorter nodes cost more than they
save."""
IMAGES = 2**30
"""Numbers from here on stand for images: all tokens of an image have the same number."""
LONGEST_NODE = 128
"""Longer nodes are split into chains, because the CPU attention kernel also computes the upper half
of a causal block."""


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Packed sequences.

    Attributes:
        ids: (N,) tokens, depth-first.
        positions: (N,) position of each token within its sequences.
        nodes: (nodes, 3): a node's tokens are `begin` to `end`, those of all nodes below it `end`
            to `last`. A token attends to its own node up to itself, and to the nodes above.
        places: For each sequence, (length,) indices of its tokens.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    nodes: torch.Tensor
    places: tuple[npt.NDArray[np.int64], ...]


def by_prefix(sequences: Sequence[Ids]) -> list[int]:
    """Numbers of the sequences in lexicographic order, so that neighbors share the most."""
    keys = [sequence.astype(">u4").tobytes() for sequence in sequences]
    return sorted(range(len(keys)), key=lambda number: (keys[number], number))


def shared_tokens(first: Ids, second: Ids) -> int:
    """Number of leading tokens that two sequences share: a multiple of `GRAIN`, or whole images."""
    length = min(len(first), len(second))
    differ = np.flatnonzero(first[:length] != second[:length])
    agree = int(differ[0]) if len(differ) else length
    cut = agree // GRAIN * GRAIN
    while 0 < cut < agree and first[cut] >= IMAGES and first[cut] == first[cut - 1]:
        cut += 1
    return cut


def take(sequences: Sequence[Ids], ordered: Sequence[int], tokens: int) -> int:
    """How many of the first sequences form a tree of at most `tokens` tokens, but at least one.

    Args:
        sequences: All sequences.
        ordered: Numbers of the remaining ones, in the order of `by_prefix`.
        tokens: Maximum packed tokens.
    """
    count = len(sequences[ordered[0]])
    for taken, (one, other) in enumerate(pairwise(ordered), 1):
        count += len(sequences[other]) - shared_tokens(sequences[one], sequences[other])
        if count > tokens:
            return taken
    return len(ordered)


def pack(sequences: Sequence[Ids]) -> PrefixTree:
    """Pack sequences into a tree."""
    order = by_prefix(sequences)
    agree = [shared_tokens(sequences[one], sequences[other]) for one, other in pairwise(order)]
    ids: list[Ids] = []
    spans: list[tuple[int, int]] = []
    nodes: list[list[int]] = []
    places: list[npt.NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(sequences)
    count = 0
    # Places of the sequences order[first:last], which agree up to `depth`; a negative `first`
    # closes the nodes from number `last` to number `depth`.
    todo = [(0, len(order), 0, np.zeros(0, np.int64))]
    while todo:
        first, last, depth, above = todo.pop()
        if first < 0:
            for node in nodes[last:depth]:
                node[2] = count
            continue
        sequence = sequences[order[first]]
        alone = last - first == 1
        end = len(sequence) if alone else min(agree[first : last - 1])
        opened = len(nodes)
        for start in range(depth, end, LONGEST_NODE):
            stop = min(start + LONGEST_NODE, end)
            nodes.append([count, count + stop - start, 0])
            count += stop - start
        ids.append(sequence[depth:end])
        spans.append((depth, end))
        path = np.concatenate([above, np.arange(count - (end - depth), count)])
        todo.append((-1, opened, len(nodes), path))
        if alone:
            places[order[first]] = path
            continue
        cuts = [first, *(i + 1 for i in range(first, last - 1) if agree[i] == end), last]
        todo += [(one, other, end, path) for one, other in reversed(list(pairwise(cuts)))]
    positions = np.concatenate([np.arange(*span) for span in spans])
    return PrefixTree(
        torch.from_numpy(np.concatenate(ids).astype(np.int64)),
        torch.from_numpy(positions),
        torch.tensor(nodes, dtype=torch.long).reshape(-1, 3),
        tuple(places),
    )
