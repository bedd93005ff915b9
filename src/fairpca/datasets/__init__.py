"""Real tables with honest descriptions, and synthetic ones with a known answer.

Files are looked for in the directory FAIRPCA_DATA (default: the user's cache directory) and are
downloaded from their public homes when they are not there.
"""

from fairpca.datasets.adult import fetch_adult
from fairpca.datasets.bank import fetch_bank_marketing
from fairpca.datasets.cache import DataUnavailableError
from fairpca.datasets.compas import fetch_compas
from fairpca.datasets.credit import fetch_credit_default
from fairpca.datasets.crop import fetch_crop_mapping
from fairpca.datasets.faces import fetch_lfw_faces
from fairpca.datasets.synthetic import make_illustration, make_shared_subspace, make_three_lines

__all__ = [
    "DataUnavailableError",
    "fetch_adult",
    "fetch_bank_marketing",
    "fetch_compas",
    "fetch_credit_default",
    "fetch_crop_mapping",
    "fetch_lfw_faces",
    "make_illustration",
    "make_shared_subspace",
    "make_three_lines",
]
