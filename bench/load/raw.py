"""Load over a bare socket with ready-made frames: what the broker can do when the client costs next to
nothing.

The same bytes go to every server. Answers to the same request have the same size, so the client counts bytes
instead of parsing; it looks into the first answer of every read for an error code. Acknowledgement time is
from handing a request to the kernel to reading its answer.
"""

import socket
import time
from collections import deque
from itertools import cycle

from bench import wire
from bench.load.job import Job, Meter, Outcome, percentile
from bench.process import BenchError

BATCH_BYTES = 1_000_000  # as large as librdkafka's default makes them
BATCHES_IN_FLIGHT = 5  # as many as the Java client allows itself
REQUESTS_IN_FLIGHT = 200
REQUESTS_PER_SEND = 50  # a system call per small request would make the client the bottleneck
RECEIVE_BYTES = 1 << 20
FETCH_BYTES = 1 << 20


class Connection:
    """A blocking connection that asks and waits."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(4 << 20)

    def ask(self, request: bytes) -> memoryview:
        """The whole answer, length prefix included; valid until the next call."""
        self.socket.sendall(request)
        return self.receive()

    def receive(self) -> memoryview:
        """The next answer to what was sent."""
        self._receive(0, 4)
        size = 4 + int.from_bytes(self._buffer[:4], "big")
        if size > len(self._buffer):
            self._buffer += bytearray(size - len(self._buffer))
        self._receive(4, size)
        return memoryview(self._buffer)[:size]

    def _receive(self, have: int, size: int) -> None:
        with memoryview(self._buffer) as view:
            while have < size:
                got = self.socket.recv_into(view[have:size])
                if not got:
                    raise BenchError("the server closed the connection")
                have += got


def first_write(connection: Connection, request: bytes) -> bytes:
    """The answer to a write to a topic that may be so new that its leader does not know of it yet."""
    deadline = time.monotonic() + 30
    while True:
        answer = bytes(connection.ask(request))
        if wire.produce_error(answer) not in wire.NOT_READY_YET or time.monotonic() > deadline:
            _check_produce(answer)
            return answer
        time.sleep(0.005)


def _check_produce(answer: bytes) -> None:
    error = wire.produce_error(answer)
    if error:
        raise BenchError(f"the server refused a write with error code {error}")


class _Pipeline:
    """Keeps up to ``in_flight`` requests under way on one connection; every send holds several of them."""

    def __init__(self, job: Job, sends: list[bytes], requests_per_send: int, in_flight: int) -> None:
        connection = Connection(job.port)
        answers = [first_write(connection, send[: 4 + int.from_bytes(send[:4], "big")]) for send in sends]
        self._answer_size = len(answers[0])
        self._socket = connection.socket
        self._next_send = cycle(sends).__next__
        self._requests_per_send = requests_per_send
        self._window = in_flight - requests_per_send  # how many may be under way before another send
        self._sent_at: deque[float] = deque()
        self._sent = 0
        self._partial = 0  # bytes of an answer that is not whole yet
        self.acknowledged = 0
        self.samples: list[float] = []  # milliseconds from each send to its last acknowledgement

    def run(self, seconds: float, requests_max: int) -> None:
        end = time.perf_counter() + seconds
        sent_max = self._sent + requests_max
        while time.perf_counter() < end and self._sent < sent_max:
            while self._sent - self.acknowledged <= self._window:
                self._sent_at.append(time.perf_counter())
                self._socket.sendall(self._next_send())
                self._sent += self._requests_per_send
            self._receive()

    def wind_down(self) -> None:
        while self.acknowledged < self._sent:
            self._receive()
        self._socket.close()

    def _receive(self) -> None:
        data = self._socket.recv(RECEIVE_BYTES)
        if not data:
            raise BenchError("the server closed the connection")
        if not self._partial and len(data) >= self._answer_size:
            _check_produce(data)
        sends_before = self.acknowledged // self._requests_per_send
        whole, self._partial = divmod(self._partial + len(data), self._answer_size)
        self.acknowledged += whole
        now = time.perf_counter()
        for _ in range(self.acknowledged // self._requests_per_send - sends_before):
            self.samples.append((now - self._sent_at.popleft()) * 1000)


def _flood(job: Job, pipeline: _Pipeline, records_per_request: int) -> Outcome:
    """What is acknowledged in ``job.seconds`` in the middle of a flood."""
    pipeline.run(job.ramp_seconds, job.ramp_records_max // records_per_request)
    pipeline.samples.clear()
    before = pipeline.acknowledged
    meter = Meter(job.broker_pids)
    pipeline.run(job.seconds, job.measured_records_max // records_per_request)
    acknowledged = pipeline.acknowledged - before
    meter.stop()
    pipeline.wind_down()
    return _summary(meter, acknowledged * records_per_request, pipeline.samples)


def _summary(meter: Meter, records: int, samples: list[float]) -> Outcome:
    samples.sort()
    return meter.outcome(records, percentile(samples, 0.5), percentile(samples, 0.99))


def produce(job: Job) -> Outcome:
    count = max(1, BATCH_BYTES // (job.value_size + 10))
    batch = wire.batch_of(b"x" * job.value_size, count, int(time.time() * 1000))
    sends = [wire.produce_request(job.topic, part, batch, acks=1) for part in range(job.partitions)]
    return _flood(job, _Pipeline(job, sends, 1, BATCHES_IN_FLIGHT), count)


def _one_record_request(job: Job) -> bytes:
    batch = wire.batch_of(b"x" * job.value_size, 1, int(time.time() * 1000))
    return wire.produce_request(job.topic, 0, batch, acks=1)


def requests(job: Job) -> Outcome:
    send = _one_record_request(job) * REQUESTS_PER_SEND
    return _flood(job, _Pipeline(job, [send], REQUESTS_PER_SEND, REQUESTS_IN_FLIGHT), 1)


def latency(job: Job) -> Outcome:
    """One record at a time: from sending the request to having read its answer."""
    request = _one_record_request(job)
    connection = Connection(job.port)
    first_write(connection, request)
    samples: list[float] = []
    meter = Meter(job.broker_pids)
    while meter.elapsed() < job.seconds:
        before = time.perf_counter()
        answer = connection.ask(request)
        samples.append((time.perf_counter() - before) * 1000)
        _check_produce(bytes(answer))
    meter.stop()
    connection.socket.close()
    return _summary(meter, len(samples), samples)


def consume(job: Job) -> Outcome:
    """Fetch after fetch, each from where the one before ended; only batch headers are looked at."""
    connection = Connection(job.port)
    offset = job.start_offset
    end = job.start_offset + job.count
    meter = Meter(job.broker_pids)
    while offset < end:
        answer = connection.ask(wire.fetch_request(job.topic, 0, offset, FETCH_BYTES))
        error, _, size = wire.fetch_records(answer)
        if error or size <= 0:
            raise BenchError(f"a fetch at offset {offset} brought {size} bytes and error code {error}")
        offset = wire.end_offset(answer[len(answer) - size :])
    connection.socket.close()
    return meter.outcome(offset - job.start_offset)
