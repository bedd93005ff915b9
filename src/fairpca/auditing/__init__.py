"""The audit: whom a projection serves, for every group and over the number of components."""

from fairpca.auditing.findings import Audit
from fairpca.auditing.run import audit

__all__ = ["Audit", "audit"]
