"""Fleets: processes on hosts, behind one small interface (:mod:`harness.fleet.base`).

One module per kind of host. Imports nothing of ours, so that the nemesis may import it.
"""
