"""Applies an update rule to one parameter, for NumPy's arrays and torch's tensors."""

from __future__ import annotations

from typing import Any

from ...ir.recipe import (
    BEFORE,
    COUPLED,
    DECAY,
    DECOUPLED,
    EACH,
    EPSILON_PLACE,
    INSIDE,
    KIND,
    RATE_PLACE,
    UpdateRule,
)

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
    if rule.kind == "ASGD":
        gradient = gradient + settings["lambd"] * value
    return shrunk - _STEPS[rule.kind](settings, state, gradient, rate)


def _sgd(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    momentum = settings["momentum"]
    if not momentum:
        return rate * gradient
    if state["step"] == 1:
        state["sum"] = gradient * 1.0  # no dampening of the first
    else:
        state["sum"] = momentum * state["sum"] + (1 - settings["dampening"]) * gradient
    return rate * (gradient + momentum * state["sum"] if settings["nesterov"] else state["sum"])


def _adam(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    beta1, beta2, epsilon = settings["beta1"], settings["beta2"], settings["epsilon"]
    state["mean"] = beta1 * state.get("mean", 0.0) + (1 - beta1) * gradient
    state["square"] = beta2 * state.get("square", 0.0) + (1 - beta2) * gradient * gradient
    mean, square = state["mean"], state["square"]
    if settings["nesterov"]:
        mean = beta1 * mean + (1 - beta1) * gradient
    if settings["amsgrad"]:
        square = state["largest"] = _larger(state.get("largest", square * 0.0), square)
    if not settings["bias correction"]:
        return rate * mean / (square**0.5 + epsilon)
    one, two = 1 - beta1 ** state["step"], (1 - beta2 ** state["step"]) ** 0.5
    if settings[EPSILON_PLACE] == BEFORE:
        epsilon = epsilon / two
    return rate * mean / one / (square**0.5 / two + epsilon)


def _larger(a: Any, b: Any) -> Any:
    return (a + b + abs(a - b)) / 2


def _rmsprop(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    alpha = settings["alpha"]
    start = settings["mean square starts at"]
    state["square"] = alpha * state.get("square", start) + (1 - alpha) * gradient * gradient
    square = state["square"]
    if settings["centered"]:
        state["mean"] = alpha * state.get("mean", 0.0) + (1 - alpha) * gradient
        square = square - state["mean"] ** 2
    inside = rate if settings.get(RATE_PLACE) else 1.0
    step = inside * gradient / _root(square, settings)
    if settings["momentum"]:
        step = state["sum"] = settings["momentum"] * state.get("sum", 0.0) + step
    return step if settings.get(RATE_PLACE) else rate * step


def _adagrad(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    start = settings["sum of squares starts at"]
    state["square"] = state.get("square", start) + gradient * gradient
    slower = 1 + (state["step"] - 1) * settings["rate decay"]
    root = _root(state["square"], settings)
    return rate * gradient / (root + (root == 0)) / slower  # no gradient yet: no step


def _root(square: Any, settings: Any) -> Any:
    epsilon = settings["epsilon"]
    return (square + epsilon) ** 0.5 if settings[INSIDE] else square**0.5 + epsilon


def _adadelta(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    rho, epsilon, before = settings["rho"], settings["epsilon"], state.get("change", 0.0)
    state["square"] = rho * state.get("square", 0.0) + (1 - rho) * gradient * gradient
    change = (before + epsilon) ** 0.5 / (state["square"] + epsilon) ** 0.5 * gradient
    state["change"] = rho * before + (1 - rho) * change * change
    return rate * change


def _adamax(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    beta1, beta2, epsilon = settings["beta1"], settings["beta2"], settings["epsilon"]
    each, after = (epsilon, 0.0) if settings[EPSILON_PLACE] == EACH else (0.0, epsilon)
    state["mean"] = beta1 * state.get("mean", 0.0) + (1 - beta1) * gradient
    state["largest"] = _larger(beta2 * state.get("largest", gradient * 0.0), abs(gradient) + each)
    return rate / (1 - beta1 ** state["step"]) * state["mean"] / (state["largest"] + after)


def _nadam(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    beta1, beta2, at = settings["beta1"], settings["beta2"], state["step"]
    state["mean"] = beta1 * state.get("mean", 0.0) + (1 - beta1) * gradient
    state["square"] = beta2 * state.get("square", 0.0) + (1 - beta2) * gradient * gradient
    root = (state["square"] / (1 - beta2**at)) ** 0.5 + settings["epsilon"]
    now, then = (beta1 * (1 - 0.5 * 0.96 ** (n * settings["momentum decay"])) for n in (at, at + 1))
    product = state["product"] = state.get("product", 1.0) * now
    own, moved = (1 - now) / (1 - product), then / (1 - product * then)
    return rate * (own * gradient + moved * state["mean"]) / root


def _radam(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    beta1, beta2, at = settings["beta1"], settings["beta2"], state["step"]
    state["mean"] = beta1 * state.get("mean", 0.0) + (1 - beta1) * gradient
    state["square"] = beta2 * state.get("square", 0.0) + (1 - beta2) * gradient * gradient
    mean, most = state["mean"] / (1 - beta1**at), 2 / (1 - beta2) - 1
    length = most - 2 * at * beta2**at / (1 - beta2**at)
    if length <= 5:
        return rate * mean
    bend = ((length - 4) * (length - 2) * most / ((most - 4) * (most - 2) * length)) ** 0.5
    return rate * mean * bend * (1 - beta2**at) ** 0.5 / (state["square"] ** 0.5 + settings["epsilon"])


def _rprop(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    turn = _sign(gradient * state.get("before", gradient * 0.0))
    shrinks, grows = settings["shrinks"], settings["grows"]
    factor = 1 + (grows - 1) * (turn > 0) + (shrinks - 1) * (turn < 0)
    size = state.get("size", gradient * 0.0 + rate) * factor
    least, most = settings["least step"], settings["largest step"]
    state["size"] = -_larger(-_larger(size, size * 0.0 + least), size * 0.0 - most)
    state["before"] = gradient * (turn >= 0)
    return _sign(state["before"]) * state["size"]


def _asgd(settings: Any, state: State, gradient: Any, rate: float) -> Any:
    found = state.get("rate", rate) * gradient
    state["rate"] = rate / (1 + settings["lambd"] * rate * state["step"]) ** settings["alpha"]
    return found


def _sign(values: Any) -> Any:
    return 1.0 * (values > 0) - 1.0 * (values < 0)


_STEPS = {
    "SGD": _sgd,
    "Adam": _adam,
    "RMSprop": _rmsprop,
    "Adagrad": _adagrad,
    "Adadelta": _adadelta,
    "Adamax": _adamax,
    "NAdam": _nadam,
    "RAdam": _radam,
    "Rprop": _rprop,
    "ASGD": _asgd,
}
