"""The criteria: which number per group is made as small as possible for the worst group.

Every criterion is ``f_i(U) = c_i - Tr(U.T S_i U)`` for an offset c_i, after an optional division
of S_i by its trace. To add one, add a record to `CRITERIA`; docstrings that list the names follow.

==========  =====================================  ==============================================
criterion   c_i                                    f_i is
==========  =====================================  ==============================================
loss        sum of the r largest eigenvalues       what the group loses against its own PCA
error       Tr S_i                                 the group's mean squared reconstruction error
variance    0                                      minus the variance kept
relative    as loss, all divided by Tr S_i         the loss as a share of the group's variance
share       as error, all divided by Tr S_i        one minus the share of variance kept
==========  =====================================  ==============================================
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Criterion:
    """What is minimised for the worst group.

    Attributes
    ----------
    own, trace : float
        The offset c_i is `own` times the sum of the group's r largest eigenvalues plus `trace`
        times its trace.
    as_share : bool
        Whether every S_i is divided by its trace first.
    is_loss : bool
        Whether f_i is the loss itself.
    meaning : str
        What f_i is, where the name does not say so.
    """

    own: float = 0.0
    trace: float = 0.0
    as_share: bool = False
    is_loss: bool = False
    meaning: str = ""


#: Every criterion by its name.
CRITERIA: dict[str, Criterion] = {
    "loss": Criterion(own=1.0, is_loss=True),
    "error": Criterion(trace=1.0),
    "variance": Criterion(meaning="minus the variance kept"),
    "relative": Criterion(
        own=1.0, as_share=True, meaning="the loss as a share of the group's variance"
    ),
    "share": Criterion(trace=1.0, as_share=True, meaning="one minus the share of variance kept"),
}
