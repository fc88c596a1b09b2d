"""The commands of ``tidemark``, one module each: ``add`` describes it to argparse, ``execute`` does it.

Modules here import nothing heavy when they are loaded, so that ``tidemark --help`` answers at once.
"""
