"""The broker's edge: connections, framing, dispatch to :mod:`system_under_test.apis`, and connections to other brokers."""
