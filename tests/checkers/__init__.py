"""Tests of the checkers: a plain reference, smallest histories, random histories."""
