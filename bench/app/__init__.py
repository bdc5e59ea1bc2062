"""Part of the benchmarks."""
