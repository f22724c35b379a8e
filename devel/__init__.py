"""Tools of this project's developers: what tests, benchmarks and the demo start besides QingLong itself."""
