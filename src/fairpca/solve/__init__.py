"""Everything with eigenvalues in it. Nothing here ever sees a row of the data."""
