"""Batteries: the guarantees of docs/reliability.md, attacked with real processes and counted."""
