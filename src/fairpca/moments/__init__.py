"""Rows of every group as a weight, a mean and a centred scatter: all that a fit needs of them."""

from fairpca.moments.group_moments import GroupMoments, Standardized
from fairpca.moments.groups import Groups

__all__ = ["GroupMoments", "Groups", "Standardized"]
