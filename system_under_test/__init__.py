"""The broker cluster that Tidemark ships will live here. Imports nothing else of ours."""
