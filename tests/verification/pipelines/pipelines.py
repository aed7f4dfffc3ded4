"""Pipelines of torchvision, of MindSpore and of plain Python on images that the tests make."""

import os
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image

sys.path.append(str(Path(sys.prefix) / "torchvision"))
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for _kind in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool", "deform_conv2d"):
    LIBRARY.define(f"{_kind}(Tensor x) -> Tensor")
    LIBRARY.define(f"_{_kind}_backward(Tensor x) -> Tensor")
for _kind in ("nms", "qnms"):
    LIBRARY.define(f"{_kind}(Tensor x) -> Tensor")

import mindspore  # noqa: E402
import mindspore.dataset as ds  # noqa: E402
import mindspore.dataset.transforms as T  # noqa: E402
import mindspore.dataset.vision as V  # noqa: E402
import torchvision  # noqa: E402
from torchvision import transforms as tv  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

FOLDER = os.environ["IMAGES"]
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def torch_folder(*stages, shuffle=False, drop=False, batch=4, label=None, **loading):
    stages = stages or (tv.Resize(32), tv.CenterCrop(28), tv.ToTensor(), tv.Normalize(MEAN, STD))
    data = torchvision.datasets.ImageFolder(
        FOLDER, tv.Compose(list(stages)), target_transform=label, **loading
    )
    return torch.utils.data.DataLoader(data, batch, shuffle=shuffle, drop_last=drop)


def mindspore_folder(*stages, shuffle=False, drop=False, batch=4, label=None, repeat=1):
    stages = stages or (*PIL_HEAD, V.ToTensor(), V.Normalize(MEAN, STD, is_hwc=False))
    data = ds.ImageFolderDataset(FOLDER, shuffle=shuffle).map(list(stages), "image")
    data = data.map(label or T.TypeCast(mindspore.int64), "label")
    return data.repeat(repeat).batch(batch, drop_remainder=drop)


C_HEAD = (V.Decode(), V.Resize(32), V.CenterCrop(28))
PIL_HEAD = (V.Decode(to_pil=True), V.Resize(32), V.CenterCrop(28))
TAIL = (V.ToTensor(), V.Normalize(MEAN, STD, is_hwc=False))
SCALED = V.Normalize([255 * m for m in MEAN], [255 * s for s in STD])


def images():
    return [
        (np.asarray(Image.open(f"{FOLDER}/{kind}/{i}.png")), "ab".index(kind))
        for kind in "ab"
        for i in range(5)
    ]


class Own(torch.utils.data.Dataset):
    """A dataset of a person's own."""

    def __init__(self, transform):
        self.transform, self.held = transform, images()

    def __len__(self):
        return len(self.held)

    def __getitem__(self, i):
        image, label = self.held[i]
        return self.transform(Image.fromarray(image)), label


def plain(image=lambda x: normal(x), label=lambda y: y, held=None):
    """Batches of plain Python, of which nothing but values is known."""
    held = images() if held is None else held
    for i in range(0, len(held), 4):
        part = held[i : i + 4]
        yield np.stack([image(x) for x, _ in part]), np.array([label(y) for _, y in part])


def normal(x, mean=MEAN, std=STD):
    return ((x / 255.0 - np.array(mean)) / np.array(std)).transpose(2, 0, 1).astype(np.float32)


def tokens(pad=0, left=False, length=12, first=None, cut=None):
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(8):
        row = [*([first] if first else []), *rng.integers(5, 90, rng.integers(4, 9)).tolist()][:cut]
        fill = [pad] * (length - len(row))
        rows.append(fill + row if left else row + fill)
    for i in range(0, 8, 4):
        yield {"ids": np.array(rows[i : i + 4]), "label": np.arange(i, i + 4)}


def texts(length=8, end=None, left_cut=False, left=False, marks=1, pad=0):
    """Token sequences of several lengths with their masks: one is cut, one has a single value of padding."""
    rng = np.random.default_rng(2)
    for sizes in ((3, 7, 12), (4, 2, 5)):
        rows = [[*rng.integers(5, 90, n).tolist(), *([end] if end else [])] for n in sizes]
        rows = [row[-length:] if left_cut else row[:length] for row in rows]
        held = [
            np.array([pad] * left * (length - len(r)) + r + [pad] * (not left) * (length - len(r)))
            for r in rows
        ]
        ones = [np.array([marks] * len(r)) for r in rows]
        both = [(length - len(r), 0) if left else (0, length - len(r)) for r in rows]
        mask = [np.pad(m, b, constant_values=1 - marks) for m, b in zip(ones, both, strict=True)]
        yield {"ids": np.stack(held), "mask": np.stack(mask)}


def recurrent(first=True, fill=0.0):
    rng = np.random.default_rng(3)
    held = [torch.tensor(rng.random((n, 6)), dtype=torch.float32) for n in (5, 3, 7, 4, 6, 2)]
    for i in (0, 3):
        part = held[i : i + 3]
        padded = torch.nn.utils.rnn.pad_sequence(part, batch_first=first, padding_value=fill)
        yield padded, torch.tensor([len(x) for x in part])


def standardised(x):
    x = x / 255.0
    return ((x - x.mean()) / x.std()).transpose(2, 0, 1).astype(np.float32)


CENTRED = tv.Normalize(MEAN, STD)
RANDOM = (V.Decode(to_pil=True), V.RandomResizedCrop(28), V.RandomHorizontalFlip(0.5), *TAIL)

PIPELINES = {
    "torch": torch_folder,
    "torch v2": lambda: torch_folder(
        v2.ToImage(), v2.Resize(32, antialias=True), v2.CenterCrop(28), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(MEAN, STD),
    ),
    "torch tensors": lambda: torch_folder(
        tv.PILToTensor(), tv.Resize(32, antialias=False), tv.CenterCrop(28),
        tv.ConvertImageDtype(torch.float32), tv.Normalize(MEAN, STD),
    ),
    "torch own": lambda: torch.utils.data.DataLoader(
        Own(tv.Compose([tv.Resize(32), tv.CenterCrop(28), tv.ToTensor(), tv.Normalize(MEAN, STD)])), 4
    ),
    "torch random": lambda: torch_folder(
        tv.RandomResizedCrop(28), tv.RandomHorizontalFlip(), tv.ToTensor(), tv.Normalize(MEAN, STD),
        shuffle=True,
    ),
    "torch one": lambda: torch_folder(label=lambda y: y + 1),
    "mindspore": mindspore_folder,
    "mindspore C": lambda: mindspore_folder(*C_HEAD, SCALED, V.HWC2CHW()),
    "mindspore rescaled": lambda: mindspore_folder(
        *C_HEAD, V.Rescale(1 / 255, 0.0), V.Normalize(MEAN, STD), V.HWC2CHW()
    ),
    "mindspore to -1": lambda: mindspore_folder(
        *C_HEAD, V.Rescale(1 / 127.5, -1.0), V.Normalize(MEAN, STD), V.HWC2CHW()
    ),
    "mindspore generator": lambda: ds.GeneratorDataset(
        [(x, np.int64(y)) for x, y in images()], ["image", "label"], shuffle=False
    ).map([V.ToPIL(), V.Resize(32), V.CenterCrop(28), *TAIL], "image").batch(4),
    "mindspore padded": lambda: mindspore_folder(*PIL_HEAD[:2], V.Pad(2), PIL_HEAD[2], *TAIL),
    "bgr": lambda: mindspore_folder(*PIL_HEAD, reverse_channels, *TAIL),
    "other mean": lambda: mindspore_folder(
        *PIL_HEAD, V.ToTensor(), V.Normalize([0.5] * 3, [0.5] * 3, is_hwc=False)
    ),
    "not divided": lambda: mindspore_folder(*PIL_HEAD, to_floats, V.Normalize(MEAN, STD, is_hwc=False)),
    "bicubic": lambda: mindspore_folder(PIL_HEAD[0], V.Resize(32, V.Inter.BICUBIC), PIL_HEAD[2], *TAIL),
    "square": lambda: mindspore_folder(PIL_HEAD[0], V.Resize((32, 32)), PIL_HEAD[2], *TAIL),
    "not normalised": lambda: mindspore_folder(*PIL_HEAD, V.ToTensor()),
    "layout": lambda: mindspore_folder(*PIL_HEAD, np.asarray, SCALED),
    "cropped": lambda: mindspore_folder(*PIL_HEAD[:2], V.CenterCrop(26), *TAIL),
    "crop first": lambda: mindspore_folder(PIL_HEAD[0], PIL_HEAD[2], PIL_HEAD[1], *TAIL),
    "flipped": lambda: mindspore_folder(*PIL_HEAD, V.HorizontalFlip(), *TAIL),
    "drops": lambda: mindspore_folder(drop=True),
    "batch 5": lambda: mindspore_folder(batch=5),
    "shuffled": lambda: mindspore_folder(shuffle=True),
    "one-hot": lambda: mindspore_folder(label=T.OneHot(2)),
    "skips": lambda: mindspore_folder().skip(1),
    "random": lambda: mindspore_folder(*RANDOM, shuffle=True),
    "random scale": lambda: mindspore_folder(
        RANDOM[0], V.RandomResizedCrop(28, scale=(0.5, 1.0)), *RANDOM[2:], shuffle=True
    ),
    "random flip": lambda: mindspore_folder(*RANDOM[:2], V.RandomHorizontalFlip(0.1), *TAIL, shuffle=True),
    "torch erased": lambda: torch_folder(
        tv.Resize((28, 28)), tv.ToTensor(), tv.Normalize(MEAN, STD), tv.RandomErasing(0.25)
    ),
    "erased": lambda: mindspore_folder(PIL_HEAD[0], V.Resize((28, 28)), *TAIL, V.RandomErasing(0.25)),
    "erased early": lambda: mindspore_folder(
        PIL_HEAD[0], V.Resize((28, 28)), TAIL[0], V.RandomErasing(0.25), TAIL[1]
    ),
    "torch edged": lambda: torch_folder(tv.Resize((28, 28)), tv.ToTensor(), CENTRED, tv.Pad(2)),
    "edged early": lambda: mindspore_folder(PIL_HEAD[0], V.Resize((28, 28)), V.Pad(2), *TAIL),
    "torch mirrored": lambda: torch_folder(
        tv.Resize((28, 28)), tv.ToTensor(), CENTRED, tv.Pad(2, padding_mode="reflect")
    ),
    "mirrored early": lambda: mindspore_folder(
        PIL_HEAD[0], V.Resize((28, 28)), V.Pad(2, padding_mode=V.Border.REFLECT), *TAIL
    ),
    "random decoded": lambda: mindspore_folder(V.RandomCropDecodeResize(28), *RANDOM[2:], shuffle=True),
    "plain": plain,
    "plain hot": lambda: plain(label=lambda y: np.eye(3, dtype=np.float32)[y]),
    "plain smooth": lambda: plain(label=lambda y: np.eye(3, dtype=np.float32)[y] * 0.9 + np.float32(0.1 / 3)),
    "plain mixed": lambda: plain(label=lambda y: np.float32([0.6 - 0.2 * y, 0.4 + 0.2 * y, 0.0])),
    "plain bgr": lambda: plain(lambda x: normal(x[:, :, ::-1])),
    "plain layout": lambda: plain(lambda x: normal(x).transpose(1, 2, 0)),
    "plain not divided": lambda: plain(lambda x: normal(x * 255.0, [255 * m for m in MEAN])),
    "plain mean": lambda: plain(lambda x: normal(x, [0.5] * 3, [0.5] * 3)),
    "plain exchanged": lambda: [batch[::-1] for batch in plain()],
    "plain near mean": lambda: plain(lambda x: normal(x, [m - 0.004 for m in MEAN])),
    "plain 256": lambda: plain(lambda x: normal(x * (255 / 256))),
    "plain rounded mean": lambda: plain(lambda x: normal(x, [round(m * 255, 1) / 255 for m in MEAN])),
    "plain flip": lambda: plain(lambda x: normal(x[:, ::-1])),
    "plain shift": lambda: plain(lambda x: normal(np.roll(x, 1, 0))),
    "plain classes": lambda: plain(label=lambda y: 1 - y),
    "plain half": lambda: plain(lambda x: normal(x).astype(np.float16)),
    "plain backwards": lambda: plain(held=images()[::-1]),
    "tokens": tokens,
    "tokens padded": lambda: tokens(pad=1),
    "tokens left": lambda: tokens(left=True),
    "tokens longer": lambda: tokens(length=16),
    "tokens first": lambda: tokens(first=101),
    "tokens cut": lambda: tokens(cut=6),
    "texts": texts,
    "texts lists": lambda: [tuple(batch.values()) for batch in texts()],
    "texts left": lambda: texts(left=True),
    "texts cut left": lambda: texts(left_cut=True),
    "texts end": lambda: texts(end=1),
    "texts shorter": lambda: texts(length=6),
    "texts pad": lambda: texts(pad=99),
    "texts marks": lambda: texts(marks=0),
    "recurrent": recurrent,
    "recurrent arrays": lambda: [(x.numpy().copy(), n.numpy().copy()) for x, n in recurrent()],
    "recurrent time first": lambda: recurrent(first=False),
    "recurrent filled": lambda: recurrent(fill=-1.0),
    "plain own statistics": lambda: plain(standardised),
    "torch grey": lambda: torch_folder(loader=lambda path: Image.open(path).convert("L").convert("RGB")),
    "torch 5": lambda: torch_folder(batch=5),
    "drops none": lambda: mindspore_folder(batch=5, drop=True),
    "repeats": lambda: mindspore_folder(repeat=2),
    "torch converted": lambda: torch_folder(
        tv.Resize(32), tv.CenterCrop(28), tv.PILToTensor(), tv.ConvertImageDtype(torch.float32), CENTRED
    ),
}  # fmt: skip


def reverse_channels(image):
    return Image.fromarray(np.asarray(image)[:, :, ::-1].copy())


def to_floats(image):
    return np.asarray(image).transpose(2, 0, 1).astype(np.float32)


for _name, _make in PIPELINES.items():
    globals()["make_" + _name.replace(" ", "_").replace("-", "_")] = _make
