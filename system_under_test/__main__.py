"""``python -m system_under_test server.properties``: one broker, until SIGTERM or SIGINT."""

import sys

if __name__ == "__main__":
    # Where hypothesis is installed kio imports it and registers strategies for its types: half of the time that a broker
    # takes to start, for something that only tests use. This says that there is none (and only in this process).
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from system_under_test.process import main

    sys.exit(main(sys.argv[1:]))
