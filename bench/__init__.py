"""Benchmarks: ratios against peers, taken in interleaved rounds on one server."""
