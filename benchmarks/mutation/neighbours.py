"""What is taken for one another in MindSpore source: functions, methods and Python's operators."""

from __future__ import annotations

import ast

CALLS = {
    "nn.ReLU": ["nn.ReLU6", "nn.LeakyReLU", "nn.ELU", "nn.Identity"],
    "nn.ReLU6": ["nn.ReLU", "nn.HSigmoid"],
    "nn.LeakyReLU": ["nn.ReLU"],
    "nn.HSwish": ["nn.SiLU"],
    "nn.SiLU": ["nn.HSwish"],
    "nn.HSigmoid": ["nn.Sigmoid"],
    "nn.Sigmoid": ["nn.HSigmoid", "nn.Tanh"],
    "nn.Tanh": ["nn.Sigmoid", "nn.Softsign"],
    "nn.ELU": ["nn.CELU", "nn.ReLU"],
    "nn.MaxPool2d": ["nn.AvgPool2d"],
    "nn.AvgPool2d": ["nn.MaxPool2d"],
    "nn.MaxPool1d": ["nn.AvgPool1d"],
    "nn.AvgPool1d": ["nn.MaxPool1d"],
    "nn.AdaptiveAvgPool2d": ["nn.AdaptiveMaxPool2d"],
    "nn.AdaptiveMaxPool2d": ["nn.AdaptiveAvgPool2d"],
    "nn.LSTM": ["nn.GRU"],
    "nn.Softmax": ["nn.LogSoftmax"],
    "nn.LogSoftmax": ["nn.Softmax"],
    "ops.relu": ["ops.relu6", "ops.elu", "ops.leaky_relu"],
    "ops.relu6": ["ops.relu"],
    "ops.hardsigmoid": ["ops.sigmoid"],
    "ops.sigmoid": ["ops.hardsigmoid"],
    "ops.hardswish": ["ops.silu"],
    "ops.silu": ["ops.hardswish"],
    "ops.softmax": ["ops.log_softmax"],
    "ops.log_softmax": ["ops.softmax"],
    "ops.elu": ["ops.relu"],
    "ops.leaky_relu": ["ops.relu"],
    "ops.tanh": ["ops.softsign"],
    "ops.maximum": ["ops.minimum"],
    "ops.minimum": ["ops.maximum"],
    "ops.max_pool2d": ["ops.avg_pool2d"],
    "ops.avg_pool2d": ["ops.max_pool2d"],
    "ops.exp": ["ops.relu"],
    "ops.sqrt": ["ops.rsqrt"],
    "ops.floor": ["ops.ceil", "ops.round"],
    "ops.round": ["ops.floor"],
}
"""Callable -> neighbours that take the same arguments, more or less."""

METHODS = {
    "mean": ["sum", "max"],
    "sum": ["mean"],
    "amax": ["amin"],
    "amin": ["amax"],
    "max": ["min"],
    "argmax": ["argmin"],
    "floor": ["round"],
    "relu": ["sigmoid"],
    "sigmoid": ["tanh"],
    "tanh": ["sigmoid"],
    "exp": ["relu"],
    "sqrt": ["rsqrt"],
    "abs": ["relu"],
}

OPERATORS: dict[type[ast.operator], list[type[ast.operator]]] = {
    ast.Add: [ast.Sub, ast.Mult],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Add, ast.Div],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mult],
    ast.BitAnd: [ast.BitOr],
    ast.BitOr: [ast.BitAnd],
}

COMPARISONS: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE, ast.Gt],
    ast.LtE: [ast.Lt],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
}
