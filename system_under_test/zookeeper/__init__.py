"""What the cluster keeps in ZooKeeper: paths and JSON of every node, the broker's session and registration, topics.

The layout is Apache Kafka 3.x's, so that Kafka's own tools can read it. Knows :mod:`system_under_test.world` and
:mod:`system_under_test.types` and, for the errors that clients see, :mod:`system_under_test.protocol`.
"""
