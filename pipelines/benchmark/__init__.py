"""One run: prepare, replay, collect, verify, report; and the benchmarks of single parts."""
