"""Tables larger than memory: files -> pieces -> batches -> GroupMoments."""

from fairpca.io.read_moments import Progress, read_moments

__all__ = ["Progress", "read_moments"]
