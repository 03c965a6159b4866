"""Messages and arrays over a unix socket."""

from __future__ import annotations

import os
import socket
import threading

import numpy as np
import pytest

from axla.service.messages import CREDIT, PIECE
from axla.service.transport import (
    HEADER,
    PIECE_BYTES,
    PIECES,
    BadMessage,
    Closed,
    SocketTransport,
    is_window,
    new_window,
)  # fmt: skip


@pytest.fixture(params=["window", "messages"])
def pair(request):
    """Client and server, with a window or without."""
    ends = socket.socketpair()
    window = new_window() if request.param == "window" else None
    client, server = (
        SocketTransport(end, window, first=first) for end, first in zip(ends, (True, False), strict=True)
    )
    for end in (client, server):
        end.most = 8 << 20
    yield client, server
    for end in ends:
        end.close()


def test_messages_arrive_in_order_and_whole(pair):
    client, server = pair
    big = os.urandom(3 << 20)
    sender = threading.Thread(target=lambda: [client.send(n, 7, big[: n * 1000]) for n in (1, 0, 3000)])
    sender.start()
    assert [server.receive(30) for _ in range(3)] == [(n, 7, big[: n * 1000]) for n in (1, 0, 3000)]
    sender.join()
    assert server.receive(0) is None


def test_half_a_message_is_kept_until_the_rest_comes(pair):
    client, server = pair
    data = HEADER.pack(5, 1, 2) + b"hello"
    for part in (data[:4], data[4:11]):
        client.socket.send(part)
        assert server.receive(0.01) is None
    client.socket.send(data[11:])
    assert server.receive(1) == (1, 2, b"hello")


def test_a_message_that_is_too_long_is_refused_before_it_is_read(pair):
    client, server = pair
    client.socket.send(HEADER.pack((8 << 20) + 1, 1, 2))
    with pytest.raises(BadMessage, match="8388609 bytes; at most 8388608"):
        server.receive(1)


def test_the_end(pair):
    client, server = pair
    client.socket.send(b"\1\2")
    client.close()
    with pytest.raises(Closed):
        server.receive(1)
    server.close()
    with pytest.raises(Closed):
        server.send(1, 2, b"x")


@pytest.mark.parametrize("size", [1, PIECE_BYTES, (PIECES + 3) * PIECE_BYTES + 17])
def test_arrays_go_in_pieces(pair, size):
    client, server = pair
    array = np.random.default_rng(0).integers(0, 255, size, np.uint8)
    found, at = np.zeros_like(array), 0

    def wait(until):
        while not until():
            call, kind, body = client.receive(30)
            assert (call, kind) == (0, CREDIT)
            client.credit(body)

    sender = threading.Thread(target=client.give, args=[9, array, wait])
    sender.start()
    while at < size:
        call, kind, body = server.receive(30)
        assert (call, kind) == (9, PIECE)
        at += server.take(body, found, at)
    sender.join()
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"\0", "too short for its header"),
        (b"\0\x09\0\0\0" + b"x" * 9, "does not fit"),
        (bytes([PIECES]) + b"\x04\0\0\0" + b"x" * 4, f"in slot {PIECES} does not fit"),
        (b"\0\xff\xff\xff\xff", "does not fit"),
    ],
)
def test_pieces_that_do_not_fit(pair, body, said):
    _, server = pair
    with pytest.raises(BadMessage, match=said):
        server.take(body, np.zeros(8, np.uint8), 0)


def test_credits_that_nobody_owes(pair):
    client, _ = pair
    for body in (b"\0", bytes([PIECES]), b"\0\0"):
        with pytest.raises(BadMessage, match="was not sent"):
            client.credit(body)


def test_a_window_keeps_its_size():
    window = new_window()
    with pytest.raises(OSError):
        os.ftruncate(window, 0)
    assert is_window(window)
    for other in (os.memfd_create("other"), os.open("/dev/null", os.O_RDWR)):
        assert not is_window(other)
        os.close(other)
    os.close(window)
