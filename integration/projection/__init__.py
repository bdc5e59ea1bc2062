"""Source projections: the identity of a projection, its input ranges and what covers an input."""
