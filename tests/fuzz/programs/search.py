"""A round of random programs, from a seed."""

from __future__ import annotations

import importlib

from hypothesis import HealthCheck, given, reject, settings
from hypothesis import seed as seeded

from regraft.ir import UnsupportedError

FRONTENDS = ("torch", "mindspore", "mxnet")


def search(frontend: str, *, programs: int, seed: int) -> str:
    """Check so many programs; what is wrong with the smallest one that fails, or an empty text.

    Args:
        frontend: whose.
        programs: how many are drawn.
        seed: of what is drawn.
    """
    module = importlib.import_module(f".{frontend}_programs", __package__)
    failed: list[str] = []
    compared: list[object] = []

    @seeded(seed)
    @settings(max_examples=programs, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(module.programs())
    def run(program: object) -> None:
        try:
            module.check(program)
            compared.append(program)
        except UnsupportedError:  # a refusal is right, but does not count
            reject()
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}\n{program!r}")
            raise

    try:
        run()
    except Exception:  # whatever a program raises is what is looked for; the last is the smallest
        if not failed:  # Hypothesis's own: no program could be drawn, or none was taken
            raise
        return failed[-1]
    return "" if len(compared) >= programs / 2 else f"only {len(compared)} of {programs} could be read"
