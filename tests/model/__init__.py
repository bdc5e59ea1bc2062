"""The kernel against a model: random interleavings on the real database, and a few lists in Python that say what is right."""
