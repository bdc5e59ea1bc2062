"""Ingress: verify a webhook, store its receipt, and materialize receipts into Events and WorkItems."""
