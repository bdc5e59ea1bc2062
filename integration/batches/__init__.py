"""Bulk replays: a frozen selection, a ledger of what became of each row, a runner. Each item is a single replay."""
