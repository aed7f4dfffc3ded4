"""Applies an update rule to one parameter, for NumPy's arrays and torch's tensors."""

from __future__ import annotations

from typing import Any

from ...ir.recipe import BEFORE, COUPLED, DECAY, DECOUPLED, EPSILON_PLACE, INSIDE, KIND, UpdateRule

State = dict[str, Any]
"""State that a rule keeps for a parameter between steps; empty before the first."""


def updated(rule: UpdateRule, state: State, value: Any, gradient: Any, rate: float) -> Any:
    """Return a parameter's value after one step; its state moves on."""
    settings: Any = rule.settings
    if settings.get("maximize"):
        gradient = -gradient
    decay = settings[DECAY]
    if decay and settings[KIND] == COUPLED:
        gradient = gradient + decay * value
    shrunk = value - rate * decay * value if decay and settings[KIND] == DECOUPLED else value
    state["step"] = state.get("step", 0) + 1
    return shrunk - rate * _DIRECTIONS[rule.kind](settings, state, gradient)


def _sgd(settings: Any, state: State, gradient: Any) -> Any:
    momentum = settings["momentum"]
    if not momentum:
        return gradient
    if state["step"] == 1:
        state["sum"] = gradient * 1.0  # no dampening of the first
    else:
        state["sum"] = momentum * state["sum"] + (1 - settings["dampening"]) * gradient
    return gradient + momentum * state["sum"] if settings["nesterov"] else state["sum"]


def _adam(settings: Any, state: State, gradient: Any) -> Any:
    beta1, beta2, epsilon = settings["beta1"], settings["beta2"], settings["epsilon"]
    state["mean"] = beta1 * state.get("mean", 0.0) + (1 - beta1) * gradient
    state["square"] = beta2 * state.get("square", 0.0) + (1 - beta2) * gradient * gradient
    mean, square = state["mean"], state["square"]
    if settings["nesterov"]:
        mean = beta1 * mean + (1 - beta1) * gradient
    if settings["amsgrad"]:
        square = state["largest"] = _larger(state.get("largest", square * 0.0), square)
    if not settings["bias correction"]:
        return mean / (square**0.5 + epsilon)
    one, two = 1 - beta1 ** state["step"], (1 - beta2 ** state["step"]) ** 0.5
    if settings[EPSILON_PLACE] == BEFORE:
        epsilon = epsilon / two
    return mean / one / (square**0.5 / two + epsilon)


def _larger(a: Any, b: Any) -> Any:
    return (a + b + abs(a - b)) / 2


def _rmsprop(settings: Any, state: State, gradient: Any) -> Any:
    alpha = settings["alpha"]
    start = settings["mean square starts at"]
    state["square"] = alpha * state.get("square", start) + (1 - alpha) * gradient * gradient
    square = state["square"]
    if settings["centered"]:
        state["mean"] = alpha * state.get("mean", 0.0) + (1 - alpha) * gradient
        square = square - state["mean"] ** 2
    direction = gradient / _root(square, settings)
    if settings["momentum"]:
        direction = state["sum"] = settings["momentum"] * state.get("sum", 0.0) + direction
    return direction


def _adagrad(settings: Any, state: State, gradient: Any) -> Any:
    start = settings["sum of squares starts at"]
    state["square"] = state.get("square", start) + gradient * gradient
    slower = 1 + (state["step"] - 1) * settings["rate decay"]
    root = _root(state["square"], settings)
    return gradient / (root + (root == 0)) / slower  # no gradient yet: no step


def _root(square: Any, settings: Any) -> Any:
    epsilon = settings["epsilon"]
    return (square + epsilon) ** 0.5 if settings[INSIDE] else square**0.5 + epsilon


_DIRECTIONS = {"SGD": _sgd, "Adam": _adam, "RMSprop": _rmsprop, "Adagrad": _adagrad}
