"""How probable values are under a law: right ones are rarely improbable, narrower ones are at once."""

import numpy as np
import pytest

from regraft.verification.two_nets.samples import Distribution, probability_of

UNIFORM = Distribution("uniform", (-0.5, 0.5))


@pytest.mark.parametrize("size", [4, 64, 1024])
def test_right_values_are_as_rarely_improbable_as_the_level_says(size):
    random = np.random.default_rng(0)
    found = [probability_of(np.sort(random.uniform(-0.5, 0.5, size)), UNIFORM) for _ in range(1000)]
    assert np.mean(np.array(found) < 0.01) < 0.02
    assert min(found) > 1e-6


def test_few_values_of_a_narrower_law_are_told_by_coming_near_neither_bound():
    random = np.random.default_rng(0)
    found = [probability_of(np.sort(random.uniform(-0.35, 0.35, 64)), UNIFORM) for _ in range(100)]
    assert max(found) < 1e-8
