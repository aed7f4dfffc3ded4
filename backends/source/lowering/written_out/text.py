"""Counts of runs of words, which are whole numbers here."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .....ir import Builder, Operator, Value
from .....ir.composites.terms import Term, whole
from .table import ExpansionTable, constant, given, rank_of, size_of

TABLE = ExpansionTable()


@TABLE.op("TfIdfVectorizer")
def count_runs(b: Builder, node: Operator, operands: Sequence[Value | None]) -> list[Term] | None:
    """Compare every run of words, with gaps, with every run that is counted."""
    (x,) = given(b, operands, 1)
    pool = node.attribute("pool_int64s")
    if x is None or not isinstance(pool, (list, tuple)) or rank_of(x) not in (1, 2):
        return None
    length, mode = size_of(x, -1), node.str("mode")
    if length is None:
        return None
    words, indexes = x.cast("int64"), node.ints("ngram_indexes")
    bounds, weights = [*node.ints("ngram_counts"), len(pool)], node.attribute("weights")
    places: list[int] = []
    counts: list[Term] = []
    first = 0
    for size, (start, stop) in enumerate(pairwise(bounds), 1):
        runs = np.array(pool[start:stop], np.int64).reshape(-1, size)
        own, first = indexes[first : first + len(runs)], first + len(runs)
        found = _count(words, runs, length, node) if len(runs) else None
        if found is not None:
            places += own
            counts.append(found)
    if not counts:
        return None
    table = np.zeros((len(places), max(indexes) + 1), np.float32)
    factors = np.ones(len(indexes), np.float32)
    if mode != "TF" and isinstance(weights, (list, tuple)):
        factors = np.array(weights, np.float32)
    for row, place in enumerate(places):
        table[row, place] = factors[indexes.index(place)]
    joined = counts[0].op("Concat", *counts[1:], axis=-1) if len(counts) > 1 else counts[0]
    if mode == "IDF":
        joined = joined.clip(0, 1)
    return [joined.cast("float32").op("MatMul", constant(joined, table, "float32"))]


def _count(words: Term, runs: np.ndarray, length: int, node: Operator) -> Term | None:
    """Return how often each run is met, along a last axis; None where none fits or is wanted."""
    size = runs.shape[1]
    if not node.int("min_gram_length") <= size <= node.int("max_gram_length"):
        return None
    total: Term | None = None
    for step in range(1, 2 if size == 1 else node.int("max_skip_count") + 2):
        count = length - (size - 1) * step
        if count < 1:
            break
        places = np.arange(count)[:, None] + np.arange(size) * step
        met = words.op("Gather", constant(words, places, "int64"), axis=-1).op("Unsqueeze", whole(words, -2))
        equal = met.equals(constant(words, runs)).cast("int32")
        all_ = equal.op("ReduceMin", whole(words, -1), keepdims=0)
        found = all_.op("ReduceSum", whole(words, -2), keepdims=0)
        total = found if total is None else total + found
    return total
