"""A benchmark of many runs: a plan of cells, each carried out by itself, checked and reported."""
