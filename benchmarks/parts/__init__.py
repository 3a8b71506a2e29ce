"""The questions that the benchmarks ask: each takes the bench that it needs, and answers in rows."""
