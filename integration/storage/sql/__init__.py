"""Named statements, one module per table. The module's name fixes the rank that its statements may lock."""
