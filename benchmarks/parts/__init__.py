"""The questions that `benchmarks.fanout` asks: each takes the lab and answers in rows."""
