"""The audit: whom a projection serves, for every group, on new rows and on those in hand.

`run` holds `audit`, which reads the rows, collects the projections of `candidates`, resamples
(`resample`), leaves rows out (`fairpca.cross_fitting`) and returns the records of `findings`;
`verdict` puts them into words. Beside it, `audit_model` measures a fitted model on new rows.
Nothing here draws or prints: `fairpca.plots`, `fairpca.report` and `fairpca.cli` do.
"""

from fairpca.auditing.findings import Audit, ModelAudit
from fairpca.auditing.run import audit, audit_model

__all__ = ["Audit", "ModelAudit", "audit", "audit_model"]
