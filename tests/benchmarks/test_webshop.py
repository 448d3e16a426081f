"""WebShop: turns and opening, and searches that find what Lucene was recorded to find."""

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from tasks.registry import load_task
from tasks.webshop.data.catalogues import open_catalogue
from tasks.webshop.search.analysis import analyze
from tasks.webshop.search.index import Index, build_index
from tests.benchmarks.conftest import Beside
from tests.tasks.webshop.search.public import public_documents, recorded_rankings
from tests.tasks.webshop.worlds import needs_recordings

TASK = load_task("webshop")
K1, B = 1.2, 0.75
"""Lucene's BM25."""


def test_webshop_turns(beside: Beside) -> None:
    entries = TASK.panel("builtin").entries[:8]
    scripts, prompts = [], []
    for number, entry in enumerate(entries):
        episode, rng, responses = TASK.episode(entry, 15), random.Random(number), []
        view = episode.reset()
        while view.messages:
            expert = number % 2
            responses.append(
                TASK.expert_response(episode) if expert else TASK.random_response(episode, rng)
            )
            prompts.append(view.messages)
            view = episode.step(responses[-1]).view
        scripts.append((entry, responses))

    def play() -> None:
        for entry, responses in scripts:
            episode = TASK.episode(entry, 15)
            episode.reset()
            for response in responses:
                episode.step(response)

    beside(play, lambda: [json.dumps(one) for one in prompts * 10], "json.dumps of prompts, 10 x")


def test_webshop_products(beside: Beside) -> None:
    """Reading products of the catalogue, as pages do."""
    catalogue = open_catalogue("builtin")
    asins = [entry.data["asin"] for entry in TASK.panel("builtin").entries]
    texts = [json.dumps(catalogue.product(asin).options) for asin in asins] * 10
    beside(
        lambda: [catalogue.product(asin) for asin in asins * 10],
        lambda: [json.loads(text) for text in texts],
        "json.loads of their options",
    )


@pytest.mark.slow
@needs_recordings
def test_webshop_searches(beside: Beside, tmp_path: Path) -> None:
    """Beside BM25 as plain matrices over the same terms; both find what Lucene found."""
    folder = Path(os.environ["WEBSHOP_RECORDINGS"])
    documents = list(public_documents(folder))
    build_index(documents, tmp_path / "index")
    index = Index.open(tmp_path / "index")
    rankings = recorded_rankings(folder)[::6]
    queries = [ranking.query for ranking in rankings]

    bags = [analyze(text) for _, text in documents]
    places = {term: place for place, term in enumerate(sorted(set().union(*bags)))}
    counts = np.zeros((len(places), len(bags)), np.float32)
    for column, bag in enumerate(bags):
        for term in bag:
            counts[places[term], column] += 1
    lengths = counts.sum(axis=0)
    known = (counts > 0).sum(axis=1, keepdims=True)
    inverse = np.log(1 + (len(bags) - known + 0.5) / (known + 0.5))
    weights = inverse * counts / (counts + K1 * (1 - B + B * lengths / lengths.mean()))

    def plain() -> list[list[str]]:
        found = []
        for query in queries:
            rows = [places[term] for term in analyze(query) if term in places]
            scores = weights[rows].sum(axis=0)
            best = np.argsort(-scores, kind="stable")[:50]
            found.append([documents[place][0] for place in best if scores[place] > 0])
        return found

    def ours() -> list[list[str]]:
        return [[documents[hit.position][0] for hit in index.search(query)] for query in queries]

    assert ours() == [[asin for asin, _ in ranking.hits] for ranking in rankings]
    shared = sum(len(set(one) & set(two)) for one, two in zip(plain(), ours(), strict=True))
    # Lucene keeps lengths in a byte, which moves some of the last.
    assert shared > 0.9 * sum(map(len, ours()))
    beside(ours, plain, "BM25 as plain matrices")
