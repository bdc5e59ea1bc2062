"""The durable-work kernel: claim, lease, retry, finish, reap."""
