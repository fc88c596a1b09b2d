"""The shipped cluster used by hand: ``tidemark cluster``, ``topics``, ``configs``, ``elect``, ``reassign``."""
