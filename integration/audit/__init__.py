"""The audit trail: who did, tried or lost what, and why; append-only and chained."""
