"""A small table with every kind of column."""

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def frame():
    """Return 160 rows: an id, two label columns, four numbers, a text column and a target."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(160, 4)) * [4, 2, 1, 1]
    return pd.DataFrame(
        {
            "id": np.arange(1, 161),
            "sex": np.repeat(["f", "m"], [110, 50]),
            "city": np.array(["x", "y"])[np.arange(160) % 2],
            **{f"v{j}": rows[:, j] for j in range(4)},
            "plan": np.array(["basic", "plus", "pro"])[np.arange(160) % 3],
            "paid": (rows[:, 0] > 0).astype(int),
        }
    )
