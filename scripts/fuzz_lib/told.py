"""The host function of generated programs. It puts its arguments into the outfeed, so that the order of its
calls is visible there. `axla bisect --load` can load this file.
"""

from __future__ import annotations

import numpy as np

from axla.custom.feeds import feeds
from axla.custom.registry import register_custom_call

NAME = "fuzz.told"


def told(x: np.ndarray, number: np.ndarray) -> np.ndarray:
    feeds(0).outfeed.put((number, x))
    return x + 1


register_custom_call(NAME, told)
