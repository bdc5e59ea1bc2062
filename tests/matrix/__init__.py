"""The status matrix of the replay authority: every combination of rows, and what the contract says of it."""
