"""Real tables with honest descriptions, and synthetic ones with a known answer.

`make_*` draw rows for which the best possible projection is known, `load_*` return tables that
come with the package, `fetch_*` published ones. These have the following parameters in common:

Parameters
----------
data_home : path, optional
    Directory of data files. Default is the one named by the environment variable FAIRPCA_DATA,
    and where that is not set, the user's cache directory.
download_if_missing : bool, default=True
    Whether to download what is not there from its public home. It is kept in `data_home`, where
    its checksum is that of the published file.
as_frame : bool, default=False
    Return pandas objects instead of arrays.

They return a scikit-learn `Bunch`: `data` without the columns that make the groups, `target`,
`target_names`, `sensitive_features` for the argument of the same name of `FairPCA.fit`,
`sensitive_names`, `feature_names`, `frame` (data and target, or None), `filename`, and `DESCR`,
which says what the table is and what is questionable about it. A file that is neither there nor
downloadable raises `DataUnavailableError`, one that is not this table ValueError.
"""

from fairpca.datasets.loading import DataUnavailableError
from fairpca.datasets.people import (
    fetch_adult,
    fetch_bank_marketing,
    fetch_compas,
    fetch_credit_default,
    fetch_hapmap3,
    fetch_law_school,
    load_japanese_vowels,
)
from fairpca.datasets.pixels import fetch_crop_mapping, fetch_lfw_faces
from fairpca.datasets.synthetic import make_illustration, make_shared_subspace, make_three_lines

__all__ = [
    "DataUnavailableError", "fetch_adult", "fetch_bank_marketing", "fetch_compas",
    "fetch_credit_default", "fetch_crop_mapping", "fetch_hapmap3", "fetch_law_school",
    "fetch_lfw_faces", "load_japanese_vowels", "make_illustration", "make_shared_subspace",
    "make_three_lines",
]  # fmt: skip
