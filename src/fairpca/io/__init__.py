"""Tables: read, with roles of their columns, prepared, or counted in batches."""

from fairpca.io.stream import read_moments
from fairpca.io.tables import Layout

__all__ = ["Layout", "read_moments"]
