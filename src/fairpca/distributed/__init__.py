"""Rows that live on a cluster: counted, or iterated over, where they are.

`dask` and `spark` turn distributed rows into `GroupMoments`; `parquet` and `dask` also offer
products with group covariances, one pass over the rows each, where covariances would not fit.
"""

__all__ = ["dask", "parquet", "spark"]
