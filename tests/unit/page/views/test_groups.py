"""Consumer groups as rows."""

import struct

from tidelog.client.reader import string
from tidelog.page.views.groups import GroupSeen, Listed, Member, assigned, rows
from unit.page.seen import cluster, facts, partition


def test_lag_and_owners() -> None:
    seen = facts(cluster(partition(1, (1, 2))))
    seen.ends = {"orders": {0: 100, 1: 50}}
    member = Member("m-1", "app\x1b", "/127.0.0.1", "", (("orders", 0),))
    group = GroupSeen(
        Listed("bil\u202eling", "classic", "Stable"), 2, (member,), {("orders", 0): 90, ("orders", 1): 60}
    )
    [row] = rows([group], seen)
    assert (row["lag"], row["name"], row["group"]) == (10, "bil\\u202eling", "bil\u202eling")
    assert [(each["partition"], each["lag"], each["member"]) for each in row["partitions"]] == [
        (0, 10, 0), (1, 0, None),
    ]  # fmt: skip
    assert row["members"][0]["client"] == "app\\x1b"
    assert row["members"][0]["host"] == "127.0.0.1"


def test_an_assignment_of_a_classic_group() -> None:
    data = struct.pack(">hi", 3, 1) + string("orders") + struct.pack(">iii", 2, 0, 4) + b"\xff\xff\xff\xff"
    assert assigned(data) == (("orders", 0), ("orders", 4))
    assert assigned(b"\x00\x01junk") == ()
    assert assigned(b"") == ()
