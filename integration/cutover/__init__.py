"""Moves of ownership: what stops admission, what hands work over, and the receipts that prove it."""
