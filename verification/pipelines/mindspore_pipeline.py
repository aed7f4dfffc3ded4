"""Opens a pipeline of mindspore.dataset: in order, with one worker, its operations tapped."""

from __future__ import annotations

from typing import Any

from .opened import Opened
from .stages import LINES, Tap


def open_mindspore(found: object, samples: int) -> Opened | None:
    """Return how to read a dataset of MindSpore, or an iterator of one; None for anything else."""
    if not any(base.__module__.startswith("mindspore.dataset") for base in type(found).__mro__):
        return None
    from mindspore import dataset as ds

    root: Any = getattr(found, "dataset", None) if not isinstance(found, ds.Dataset) else found
    if not isinstance(root, ds.Dataset):
        return None
    ds.config.set_seed(0)
    ds.config.set_num_parallel_workers(1)
    settings: dict[str, Any] = {"shuffles": False, "batch size": None, "drops the last batch": False}
    notes: list[str] = []
    count, batch_count = _size_before_batch(root), root.get_dataset_size()
    root = _without_shuffling(root, settings, notes)
    chains = _tap(root, samples)
    return Opened(
        kind="dataset of MindSpore",
        batches=root.create_dict_iterator(num_epochs=1, output_numpy=True),
        batched=settings["batch size"] is not None,
        samples=count,
        batch_count=batch_count if settings["batch size"] is not None else None,
        settings=settings,
        chains=chains,
        notes=notes,
    )


def _nodes(root: Any) -> list[Any]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack += node.children
    return found


def _size_before_batch(root: Any) -> int | None:
    node = root
    while type(node).__name__ in ("BatchDataset", "PaddedBatchDataset") or (
        node.children and type(node).__name__ in ("MapDataset", "ShuffleDataset", "ProjectDataset")
    ):
        node = node.children[0]
    batches = ("BatchDataset", "PaddedBatchDataset")
    return None if any(type(n).__name__ in batches for n in _nodes(node)) else node.get_dataset_size()


def _without_shuffling(root: Any, settings: dict[str, Any], notes: list[str]) -> Any:
    from mindspore import dataset as ds

    while type(root).__name__ == "ShuffleDataset":
        settings["shuffles"] = True
        root = root.children[0]
        root.parent = []
    for node in _nodes(root):
        name = type(node).__name__
        for i, child in enumerate(node.children):
            while type(child).__name__ == "ShuffleDataset":
                settings["shuffles"] = True
                child = child.children[0]
            node.children[i] = child
            child.parent = [node]
        if hasattr(node, "num_parallel_workers"):
            node.num_parallel_workers = 1
        if name in ("BatchDataset", "PaddedBatchDataset"):
            settings["batch size"] = int(node.batch_size) if isinstance(node.batch_size, int) else None
            settings["drops the last batch"] = bool(node.drop_remainder)
        sampler = getattr(node, "sampler", None)
        if type(sampler).__name__ == "RandomSampler":
            settings["shuffles"] = True
            node.sampler = ds.SequentialSampler()
        elif sampler is not None and type(sampler).__name__ not in ("SequentialSampler",):
            notes.append(f"the order of its `{type(sampler).__name__}` was not turned off")
        if getattr(node, "shuffle_flag", None):
            node.shuffle_flag = 0
    return root


def _tap(root: Any, samples: int) -> list[list[int]]:
    """Put one chain of taps in the place of the operations of each map; returns the numbers by column."""
    by_column: dict[str, list[int]] = {}
    maps = [node for node in _nodes(root) if type(node).__name__ == "MapDataset"]
    for node in reversed(maps):
        if len(node.input_columns) > 1:
            continue
        taps = [Tap(each, samples) for operation in node.operations for each in _flat(operation)]
        node.operations = [_Chain(taps)]
        column = (node.input_columns or ["0"])[0]
        by_column.setdefault(column, []).extend(tap.number for tap in taps)
    return list(by_column.values())


def _flat(operation: Any) -> list[Any]:
    if type(operation).__name__ == "Compose":
        return [each for part in operation.transforms for each in _flat(part)]
    if type(operation).__name__ == "RandomCropDecodeResize":
        return _decoded_and_cropped(operation)
    return [operation]


def _decoded_and_cropped(operation: Any) -> list[Any]:
    """Return the two transforms that MindSpore has as one, which decodes only what it crops."""
    from mindspore.dataset import vision

    parts = [
        vision.Decode(),
        vision.RandomResizedCrop(
            operation.size, operation.scale, operation.ratio, operation.interpolation, operation.max_attempts
        ),
    ]
    LINES.update({id(part): LINES.get(id(operation), 0) for part in parts})
    return parts


class _Chain:
    """Operations, one after the other, as one function that MindSpore calls."""

    def __init__(self, stages: list[Tap]) -> None:
        self.stages = stages

    def __call__(self, value: Any) -> Any:
        import numpy as np

        for stage in self.stages:
            value = stage(value)
        return np.asarray(value)
