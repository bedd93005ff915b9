"""The groups' second-moment matrices, explicit, in the span of the rows, or by products."""
