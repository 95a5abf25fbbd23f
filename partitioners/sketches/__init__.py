"""Fixed-memory summaries of key hashes: SpaceSaving, HyperLogLog, count-min."""
