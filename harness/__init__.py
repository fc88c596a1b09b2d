"""Plans, fleets, targets, clients, workloads, workers, the runner, reports and the command line.

May import every other package of Tidemark.
"""
