"""Rows of every group as a weight, a mean and a centred scatter: all that a fit needs of them.

Labels become `Groups` (`groups`); rows are summed per group (`scatter`) into `GroupMoments`, which
merge, travel and are stored (`storage`). A fit of them reads no row again. Read `GroupMoments`
first.
"""

from fairpca.moments.group_moments import GroupMoments, Standardized
from fairpca.moments.groups import Groups

__all__ = ["GroupMoments", "Groups", "Standardized"]
