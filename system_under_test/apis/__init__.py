"""One module per Kafka API; its docstring lists the versions served, the behaviour, and what is left out.

A module has ``API``, ``VERSIONS`` and ``async def handle(broker, request) -> Reply``; where an error can concern the
whole request, also ``refused(request, code, message)``, which puts it into the API's own shape.
"""
