"""A TCP proxy before librdkafka's mock broker that cuts a connection with a Produce request unanswered.

The mock broker tells clients to connect to 127.0.0.1; the proxy listens on the same port of 127.0.0.2 and
rewrites the address (of the same length) in the answers, so that clients stay behind it.
"""

from __future__ import annotations

import contextlib
import socket
import threading

OUTSIDE, INSIDE = b"127.0.0.2", b"127.0.0.1"
PRODUCE = b"\0\0"
"""The API key, behind the four bytes of a request's length."""


class CuttingProxy:
    def __init__(self, port: int) -> None:
        self._port = port
        self._armed = threading.Event()
        self._listener = socket.create_server((OUTSIDE.decode(), port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self) -> str:
        return f"{OUTSIDE.decode()}:{self._port}"

    def cut(self) -> None:
        """Pass on the next Produce request, and cut its connection when the answer comes."""
        self._armed.set()

    @property
    def has_cut(self) -> bool:
        return not self._armed.is_set()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                broker = socket.create_connection((INSIDE.decode(), self._port))
            except OSError:
                return  # closed
            doomed = threading.Event()
            for pump in (self._requests, self._answers):
                threading.Thread(target=pump, args=(client, broker, doomed), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):  # the other direction was cut
            while data := client.recv(1 << 20):
                if data[4:6] == PRODUCE and self._armed.is_set():
                    doomed.set()
                    self._armed.clear()
                broker.sendall(data)
        _cut(client, broker)

    def _answers(self, client: socket.socket, broker: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while (data := broker.recv(1 << 20)) and not doomed.is_set():
                client.sendall(data.replace(INSIDE, OUTSIDE))
        _cut(client, broker)


def _cut(*sides: socket.socket) -> None:
    for side in sides:
        with contextlib.suppress(OSError):  # it is closed already
            side.shutdown(socket.SHUT_RDWR)
        side.close()
