"""The real world: asyncio's sockets, a disk, ZooKeeper through kazoo. The only place that touches them.

:class:`RealWorld` puts the parts together. Imports :mod:`system_under_test.world` only.
"""

from system_under_test.realworld.world import RealWorld

__all__ = ["RealWorld"]
