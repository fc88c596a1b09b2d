"""One broken condition at a time in the checkers: does the test suite notice? ``python -m bench.mutants``."""
