"""Opens a pipeline of PyTorch: in order, without workers, its transforms tapped."""

from __future__ import annotations

from typing import Any

from .opened import Opened
from .stages import Tap

_MOST_DEPTH = 6


def open_torch(found: object, samples: int) -> Opened | None:
    """Return how to read a DataLoader or Dataset of PyTorch; None for anything else."""
    if not type(found).__module__.startswith("torch") and not _is_torch(found):
        return None
    import torch
    from torch.utils import data

    torch.manual_seed(0)
    if isinstance(found, data.DataLoader):
        return _open_loader(found, samples)
    if isinstance(found, data.Dataset):
        chains = _tap(found, samples)
        in_order = found if isinstance(found, data.IterableDataset) else _InOrder(found)
        return Opened(
            kind="dataset of PyTorch",
            batches=in_order,
            batched=False,
            samples=_length(found),
            chains=chains,
        )
    return None


def _is_torch(found: object) -> bool:
    """Whether an object's class derives from one of torch's."""
    return any(base.__module__.startswith("torch.utils.data") for base in type(found).__mro__)


class _InOrder:
    """Yields the samples of a dataset by their numbers."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        return (self.dataset[i] for i in range(len(self.dataset)))


def _open_loader(loader: Any, samples: int) -> Opened:
    import torch
    from torch.utils import data

    notes: list[str] = []
    chains = _tap(loader.dataset, samples)
    settings = {"batch size": loader.batch_size, "drops the last batch": bool(loader.drop_last)}
    options: dict[str, Any] = {"collate_fn": loader.collate_fn, "num_workers": 0}
    shuffled = type(loader.sampler).__name__ == "RandomSampler"
    if isinstance(loader.dataset, data.IterableDataset):
        options.update(batch_size=loader.batch_size, drop_last=loader.drop_last)
    elif shuffled and loader.batch_size is not None:
        settings["shuffles"] = True
        options.update(batch_size=loader.batch_size, drop_last=loader.drop_last, shuffle=False)
    else:
        settings["shuffles"] = shuffled
        sampler = type(loader.sampler).__name__
        if sampler not in ("SequentialSampler", "RandomSampler", "_InfiniteConstantSampler"):
            notes.append(f"the order of its `{sampler}` was not turned off")
            torch.manual_seed(0)
        if loader.batch_size is None:
            options.update(batch_size=None, sampler=loader.sampler)
        else:
            options.update(batch_sampler=loader.batch_sampler)
    plain = data.DataLoader(loader.dataset, **options)
    return Opened(
        kind="DataLoader of PyTorch",
        batches=plain,
        batched=loader.batch_size is not None or loader.batch_sampler is not None,
        samples=_length(loader.dataset),
        batch_count=_length(plain),
        settings=settings,
        chains=chains,
        notes=notes,
    )


def _length(sized: Any) -> int | None:
    try:
        return len(sized)
    except TypeError:
        return None


def _tap(root: object, samples: int) -> list[list[int]]:
    """Put taps in the place of all transforms that a dataset holds; returns the numbers of each chain."""
    chains: list[list[int]] = []
    taps: dict[int, Tap] = {}
    seen: set[int] = set()

    def tapped(transform: Any) -> Tap:
        if id(transform) not in taps:
            taps[id(transform)] = Tap(transform, samples)
        return taps[id(transform)]

    def flat(transform: Any) -> list[Any]:
        if type(transform).__name__ == "Sequential":
            return [each for part in transform for each in flat(part)]
        if type(transform).__name__ == "Compose":
            return [each for part in transform.transforms for each in flat(part)]
        return [transform]

    def walk(holder: Any, depth: int) -> None:
        if depth > _MOST_DEPTH or id(holder) in seen or not hasattr(holder, "__dict__"):
            return
        seen.add(id(holder))
        for name, value in list(vars(holder).items()):
            if _is_transform(value):
                chain = [tapped(each) for each in flat(value)]
                if not any(chain[0].number in known for known in chains):
                    chains.append([tap.number for tap in chain])
                setattr(holder, name, _Chain(chain))
            elif isinstance(value, (list, tuple)) and len(value) < 64:
                for each in value:
                    walk(each, depth + 1)
            elif (
                _is_torch(value) or type(value).__name__ == "StandardTransform" or name in ("dataset", "data")
            ):
                walk(value, depth + 1)

    walk(root, 0)
    return chains


def _is_transform(value: object) -> bool:
    kind = type(value)
    if kind.__name__ in ("StandardTransform", "InterpolationMode") or not callable(value):
        return False
    home = kind.__module__.startswith("torchvision.transforms") and not isinstance(value, type)
    return (home and not hasattr(value, "__qualname__")) or kind.__name__ == "Compose"


class _Chain:
    """Transforms, one after the other."""

    def __init__(self, stages: list[Tap]) -> None:
        self.transforms = stages

    def __call__(self, value: Any) -> Any:
        for stage in self.transforms:
            value = stage(value)
        return value
