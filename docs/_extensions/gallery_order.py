"""The order of the gallery: from the first question to the special ones."""

# A script that is not listed comes after the others, by its name.
ORDER = """
    plot_iris_one_mean plot_faces plot_credit_small_groups plot_price_of_fairness plot_choose_rank
    plot_nested plot_pipeline plot_compare_methods plot_two_notions plot_single_cells
    plot_admixture plot_common_eofs plot_streaming_parquet plot_dask plot_accelerator
    plot_joint_numerical_range plot_three_lines
""".split()


class GalleryOrder:
    """The key by which sphinx-gallery sorts the scripts of a folder."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, filename):
        """Return the place of a script."""
        name = filename.removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    def __repr__(self):
        """Return a text that stays the same, so that Sphinx does not build everything anew."""
        return "GalleryOrder"
