"""Real tables with honest descriptions, and synthetic ones with a known answer.

`fetch_*` load published tables. Files are looked for in the directory `data_home`, by default the
one named by the environment variable FAIRPCA_DATA, by default the user's cache directory. What is
not there is downloaded from its public home, verified, and kept there. A download that fails
leaves the directory as it was.

All of them return a scikit-learn `Bunch`: `data` without the columns that make the groups,
`target`, `sensitive_features` for the argument of the same name of `FairPCA.fit`, and `DESCR`,
which says what the table is and what is questionable about it.

`make_*` draw rows for which the best possible projection is known.
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
