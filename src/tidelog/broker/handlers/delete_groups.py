"""DeleteGroups, versions 0 to 2: deletes groups without members, together with their offsets."""

from collections.abc import Callable, Iterator
from typing import Any

from tidelog.broker.broker import Broker
from tidelog.broker.future import Future, Gather
from tidelog.broker.requests.coordination import machine_of
from tidelog.broker.requests.request import Outcome, RequestContext
from tidelog.broker.slices import respond_in_slices
from tidelog.errors import ErrorCode, TidelogError
from tidelog.protocol.messages import Fields

DELETED_PER_SLICE = 50  # about 3 ms


def handle(broker: Broker, request: Any, context: RequestContext) -> Outcome:
    names = list(dict.fromkeys(request.groups_names))
    errors: dict[str, ErrorCode] = {}
    gather = Gather(len(names))

    def respond() -> Future[Fields]:
        future: Future[Fields] = Future()
        gather.future.then(lambda _: future.complete(_fields(names, errors)))
        return future

    def delete_each() -> Iterator[None]:
        for group_id in names:
            _delete(broker, group_id, _result_setter(errors, group_id, gather))
            yield

    return respond_in_slices(broker.services, delete_each(), DELETED_PER_SLICE, respond)


def _delete(broker: Broker, group_id: str, done: Callable[[ErrorCode | TidelogError], None]) -> None:
    try:
        machine = machine_of(broker, group_id)
    except TidelogError as refusal:
        done(refusal)
        return
    machine.ask(lambda waiter, now: machine.groups.delete(group_id, waiter, now)).then(done)


def _result_setter(
    errors: dict[str, ErrorCode], group_id: str, gather: Gather
) -> Callable[[ErrorCode | TidelogError], None]:
    def done(response: ErrorCode | TidelogError) -> None:
        errors[group_id] = response.code if isinstance(response, TidelogError) else response
        gather.one_done()

    return done


def _fields(names: list[str], errors: dict[str, ErrorCode]) -> Fields:
    return {"results": [{"group_id": name, "error_code": errors[name]} for name in names]}
