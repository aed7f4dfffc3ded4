#!/usr/bin/env bash
# `make demo`: the main job on a real model, and the net that MindSpore refuses.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
go() { say "$@"; "$@"; }

go regraft rewrite examples/resnet.py:resnet18 --input 2x3x64x64 --to mindspore -o "$out/resnet18"
say head -n 40 "$out/resnet18/model.py"
head -n 40 "$out/resnet18/model.py"
go regraft rewrite examples/resnet.py:resnet18 --input 2x3x64x64 -o "$out/resnet18.onnx"

go regraft check examples/duplicate_names.py:DuplicateNames || echo "(exit code $?: findings)"
go regraft rewrite examples/duplicate_names.py:DuplicateNames --input 2x3x16x16 --to mindspore -o "$out/mended"

go regraft rewrite examples/shared_weight-symbol.json --input data=1x1x3x3 \
    --pass tie-weights:twin=data+data2 --to mindspore -o "$out/twin"
