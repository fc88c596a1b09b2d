"""The test suite, one folder per package."""
