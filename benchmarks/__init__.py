"""Speed as ratios to what a user would run instead. Run ``python -m benchmarks``."""
