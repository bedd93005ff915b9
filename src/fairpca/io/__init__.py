"""Tables larger than memory: files -> pieces -> batches -> GroupMoments."""

from fairpca.io.progress import Progress
from fairpca.io.reduce import read_moments

__all__ = ["Progress", "read_moments"]
