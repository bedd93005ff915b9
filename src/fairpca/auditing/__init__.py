"""The audit: whom a projection serves, for every group, on new rows and on those in hand.

`audit` reads the rows, fits the candidates and fills the records of `findings`; `words` puts them
into sentences. Nothing here draws or prints: `fairpca.plots`, `fairpca.report` and `fairpca.cli`
do.
"""

from fairpca.auditing.audit import audit, audit_model, block_columns
from fairpca.auditing.findings import Audit, Finding, GroupRow, ModelAudit

__all__ = ["Audit", "Finding", "GroupRow", "ModelAudit", "audit", "audit_model", "block_columns"]
