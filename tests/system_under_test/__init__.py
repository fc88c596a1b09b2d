"""Tests of the shipped cluster; folders as in the package."""
