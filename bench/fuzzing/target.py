"""The parsers that a stranger's bytes reach: framing, headers, bodies of every API, and messages of
logins.

A refusal is one of the errors for which a connection is closed or a login refused. Everything else is a
finding, and so is a frame that takes long: the broker's event loop would stand still.
"""

import contextlib
from dataclasses import dataclass, field
from time import perf_counter, thread_time

from tidelog.broker.registry import SERVED
from tidelog.broker.requests.request import HangUp
from tidelog.errors import TidelogError
from tidelog.protocol import envelope, fetch, follower_fetch, messages, produce, sasl
from tidelog.protocol.wire import STRUCT_ERROR, Malformed, skip_tags
from tidelog.replication.messages import FetchItem
from tidelog.runtime.handling import HEADER
from tidelog.runtime.peers.exchanges import BY_API
from tidelog.runtime.receiver import Receiver
from tidelog.security.oauth import OAuthLogin, TokenRules
from tidelog.security.plain import PlainLogin
from tidelog.security.sasl import LoginRefused, SaslLogin
from tidelog.security.scram import ScramLogin, ScramMechanism

SLOW_S = 0.05  # of computing
DOUBTFUL_S = 0.002  # of time: measured again
FINDINGS_MAX = 20
REFUSALS = (TidelogError, STRUCT_ERROR, IndexError, LoginRefused)


@dataclass(slots=True)
class Target:
    frames: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    findings: list[str] = field(default_factory=list)

    def take(self, data: bytes, chunk: int) -> None:
        """The bytes of one connection, which come in pieces of this size at most."""
        receiver = Receiver(100 << 20)
        at = 0
        try:
            while at < len(data):
                buffer = receiver.buffer()
                count = min(len(buffer), len(data) - at, chunk)
                buffer[:count] = data[at : at + count]
                at += count
                if receiver.received(count):
                    self._take_complete(receiver)
        except HangUp:
            self.refused += 1

    def _take_complete(self, receiver: Receiver) -> None:
        while True:
            request = receiver.next()
            if request is not None:
                self.parse(request)
            elif receiver.needed_bytes:
                receiver.begin_large()
            else:
                return

    def parse(self, request: memoryview) -> None:
        self.frames += 1
        began = perf_counter()
        try:
            parse(request)
        except REFUSALS:
            self.refused += 1
        except Exception as error:
            self._find(f"{type(error).__name__}: {error}", request)
        if perf_counter() - began > DOUBTFUL_S:
            self._measure(request)

    def _measure(self, request: memoryview) -> None:
        """It took long, or another program had the processor."""
        began = thread_time()
        with contextlib.suppress(Exception):
            parse(request)
        spent = thread_time() - began
        self.slowest_s = max(self.slowest_s, spent)
        if spent > SLOW_S:
            self._find(f"{spent * 1000:.0f} ms", request)

    def _find(self, what: str, request: memoryview) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(f"{what} ({bytes(request[:2000]).hex()})")


def parse(request: memoryview) -> None:
    """As a connection does it, and further: also what it would parse only after authentication."""
    api_key, version, _, client_size = HEADER.unpack_from(request, 0)
    position = 10 + max(client_size, 0)
    if client_size >= 0:
        str(request[10:position], "utf-8", "replace")
    api = SERVED.get(api_key)
    known = api is not None and api.oldest <= version <= api.newest
    if not known and not _between_nodes(api_key, version):
        raise Malformed("an unknown API")
    if messages.is_flexible(api_key, version):
        position = skip_tags(request, position)
    if api_key == produce.API_KEY:
        _produce(request, position, version)
    elif api_key == fetch.API_KEY:
        _fetch(request, position, version)
    elif api_key == envelope.API_KEY:
        envelope.decode_request(request, position)
    elif (api_key, version) == (sasl.AUTHENTICATE_KEY, 0):
        log_in(sasl.decode_authenticate(request, position, version))
    else:
        messages.decode(api_key, version, request, position)
        log_in(bytes(request[position:]))


def _between_nodes(api_key: int, version: int) -> bool:
    if api_key not in BY_API and api_key != envelope.API_KEY:
        return False
    oldest, newest = messages.known_versions(api_key)
    return oldest <= version <= newest


def _produce(request: memoryview, position: int, version: int) -> None:
    decoded = produce.decode(request, position, version)
    if len(decoded.topics) == 1 and len(decoded.topics[0][1]) == 1:
        key, [(index, records)] = decoded.topics[0]
        if records is not None:
            produce.Shape(request, records, version, decoded.acks, decoded.timeout_ms, key, index).fits(
                request
            )


def _fetch(request: memoryview, position: int, version: int) -> None:
    if follower_fetch.is_ask(request, version):
        follower_fetch.decode_ask(request, position, FetchItem)
    fetch.decode(request, position, version)


def log_in(message: bytes) -> None:
    """By every mechanism. The first message, and the last."""
    logins: tuple[SaslLogin, ...] = (
        ScramLogin(ScramMechanism.SCRAM_SHA_256, lambda mechanism, user: None, "nonce", b"decoy"),
        PlainLogin(lambda user, password: False),
        OAuthLogin({}, TokenRules(), 0.0),
    )
    refusal: LoginRefused | None = None
    for login in logins:
        try:
            login.step(message)
            login.step(message)
        except LoginRefused as refused:
            refusal = refused
    if refusal is not None:
        raise refusal
