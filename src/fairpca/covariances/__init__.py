"""The groups' second-moment matrices, however they are known: in full, by products, by passes."""
