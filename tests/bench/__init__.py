"""Benchmarks: ratios within one run, never seconds asserted. `python -m tests.bench` prints them."""
