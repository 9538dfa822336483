"""How large a request may be."""

import struct
from pathlib import Path

import pytest

from tidelog.broker.requests.request import HangUp
from tidelog.protocol import envelope, produce
from tidelog.runtime.receiver import (
    ENVELOPE_BYTES_MAX,
    PEEK_BYTES,
    PLAIN_BYTES_MAX,
    SCRATCH_BYTES,
    Receiver,
)

METADATA = 3


def begin(receiver: Receiver, data: bytes) -> None:
    receiver.buffer()[: len(data)] = data
    receiver.received(len(data))
    assert receiver.next() is None


def fits(size: int, api_key: int, max_bytes: int) -> bool:
    receiver = Receiver(max_bytes)
    try:
        begin(receiver, struct.pack(">ih", size, api_key))
    except HangUp:
        return False
    return receiver.needed_bytes == size


@pytest.mark.parametrize("max_bytes", [100_000, PLAIN_BYTES_MAX])
def test_an_envelope_may_be_larger_than_what_is_in_it(max_bytes: int) -> None:
    for api_key in (METADATA, envelope.API_KEY, produce.API_KEY):
        assert fits(max_bytes, api_key, max_bytes)
        assert fits(max_bytes + 1, api_key, max_bytes) == (api_key == envelope.API_KEY)
    assert fits(max_bytes + ENVELOPE_BYTES_MAX, envelope.API_KEY, max_bytes)
    assert not fits(max_bytes + ENVELOPE_BYTES_MAX + 1, envelope.API_KEY, max_bytes)


def test_only_records_are_larger_than_plain_requests() -> None:
    max_bytes = 100 << 20
    assert fits(max_bytes, produce.API_KEY, max_bytes)
    assert not fits(PLAIN_BYTES_MAX + 1, METADATA, max_bytes)
    assert fits(PLAIN_BYTES_MAX + 1, envelope.API_KEY, max_bytes)
    assert not fits(PLAIN_BYTES_MAX + ENVELOPE_BYTES_MAX + 1, envelope.API_KEY, max_bytes)


def test_before_it_can_be_known_what_it_is() -> None:
    receiver = Receiver(100_000)
    begin(receiver, struct.pack(">i", 100_001))
    with pytest.raises(HangUp):
        begin(receiver, struct.pack(">h", METADATA))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_six_bytes_do_not_use_the_memory_of_what_they_announce() -> None:
    before = resident_bytes()
    receivers = [Receiver(100 << 20) for _ in range(100)]
    for receiver in receivers:
        begin(receiver, struct.pack(">ih", Receiver.LAZY_FROM_BYTES - 1, produce.API_KEY))
        assert receiver.begin_large() == 2
        receiver.buffer()[:1] = b"x"
        receiver.received(1)
    assert len(receivers) * Receiver.LAZY_FROM_BYTES == 400 << 20
    assert resident_bytes() - before < 40 << 20


def test_the_buffer_of_a_quiet_connection_is_dropped() -> None:
    receiver = Receiver(100 << 20)
    begin(receiver, struct.pack(">ih", 100_000, produce.API_KEY))
    receiver.begin_large()
    receiver.received(len(receiver.buffer()))
    request = receiver.next()
    assert request is not None
    receiver.give_back(request)
    assert receiver._spare is request.obj
    receiver.drop_spare()
    assert receiver._spare is None


def test_of_a_stranger_only_the_beginning_is_received_before_it_is_known_how_much_it_is() -> None:
    """Those that wait for memory would use a full buffer each otherwise."""
    receiver = Receiver(500_000, of_stranger=True)
    for _ in range(2):
        assert len(receiver.buffer()) == PEEK_BYTES
        begin(receiver, struct.pack(">ihh", 500_000, 36, 2))
        assert receiver.needed_bytes == 500_000
        assert receiver.begin_large() == 4
        receiver.received(len(receiver.buffer()))
        assert receiver.next() is not None
    receiver.allow(100 << 20)
    assert len(receiver.buffer()) == SCRATCH_BYTES
