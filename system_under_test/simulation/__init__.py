"""The simulated world: a whole cluster in one process, on virtual time, with every fault, repeatable from a seed.

``loop`` time and nodes; ``links`` wires that delay and can be cut; ``network``, ``files`` and ``coordination`` the world
as :mod:`system_under_test.world` defines it, on top of ``zookeeper`` and ``tree``, a model of the server; ``world`` the
hosts. ``cluster``, ``client``, ``schedule`` and ``invariants`` put brokers into it and judge them.
"""
