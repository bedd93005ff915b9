"""The audit: whom a projection serves, for every group, on new rows and on those in hand.

`run` holds `audit`, which reads the rows, collects the projections of `candidates`, resamples
(`resample`), leaves rows out (`fairpca.cross_fitting`) and returns the records of `findings`;
`verdict` puts them into words. `model_audit` measures a fitted model on rows it has not seen.
Nothing here draws or prints: `fairpca.plots`, `fairpca.report` and `fairpca.cli` do.
"""

from fairpca.auditing.findings import Audit
from fairpca.auditing.model_audit import ModelAudit, audit_model
from fairpca.auditing.run import audit

__all__ = ["Audit", "ModelAudit", "audit", "audit_model"]
