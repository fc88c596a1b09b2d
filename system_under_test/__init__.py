"""The broker cluster that Tidemark ships: brokers that speak Kafka's protocol and follow its replication design.

Rooms, from the edge inwards: ``server`` (connections) → ``apis`` (one module per Kafka API) → ``replication`` and
``controller`` → ``storage``, ``zookeeper``, ``metadata``; all on ``world``, the seam to everything outside. Imports nothing
else of ours."""
