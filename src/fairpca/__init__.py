"""Group-fair dimensionality reduction with a proof of how good the answer is."""

from fairpca.functional import solve
from fairpca.solve.solution import Certificate, Solution

__version__ = "0.1.0"

__all__ = ["Certificate", "Solution", "__version__", "solve"]
