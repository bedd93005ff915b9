"""The command line in this process, and tables for it."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from fairpca.cli import run


@dataclass
class Done:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch):
    """Unset the width of a terminal, which pytest-xdist sets: messages would be broken to fit."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def cli(capsys):
    """Run a command and return its exit code and output; a traceback fails the test."""

    def call(*arguments):
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Done(code, out, err)

    return call


@pytest.fixture(scope="session")
def frame():
    """Return 160 rows: an id, two label columns, four numbers, a text column and a target."""
    rng = np.random.default_rng(0)
    many, few = rng.normal(size=(110, 4)) * [4, 2, 1, 1], rng.normal(size=(50, 4)) * [1, 1, 4, 2]
    rows = np.vstack([many, few])
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


@pytest.fixture
def csv(frame, tmp_path):
    """Return the path of the table as CSV."""
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path
