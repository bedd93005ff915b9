"""The list of deliberate breakages still fits the code (`python tools/mutants.py` runs them)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from mutant_list import MUTANTS  # noqa: E402


def test_there_are_thirty_of_them():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 30


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_still_applies(mutant):
    broken = mutant.apply(ROOT)
    assert broken != (ROOT / "src" / "fairpca" / mutant.file).read_text()
    assert (ROOT / mutant.tests.split()[0]).is_file()


def test_a_stale_mutant_says_so():
    stale = type(MUTANTS[0])("gone", "files.py", "no such line", "", "tests/test_moments.py")
    with pytest.raises(ValueError, match="mutant 'gone' is stale: its old text occurs 0 times"):
        stale.apply(ROOT)


def test_tolerances_are_what_the_documentation_says():
    from fairpca import FairPCA
    from fairpca.solve.solution import Certificate

    assert FairPCA().tol == 1e-10
    assert Certificate(1.0, 1.0, 1e-8).optimal
    assert not Certificate(1.0, 1.0, 1.1e-8).optimal
