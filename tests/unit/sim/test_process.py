"""Simulated processes: clocks of their own, freezing, dying; and what a dead one leaves on its disk."""

from tidelog.sim.disk import EIO, SimulatedDisk, everything, nothing
from tidelog.sim.process import Clock, SimServices
from tidelog.sim.world import World


def test_a_frozen_process_does_later_what_became_due() -> None:
    world, done = World(1), list[str]()
    process = SimServices(world)
    process.later(10, lambda: done.append("timer"))
    process.offload(lambda: done.append("disk"), lambda _: done.append("answer"))
    process.pause()
    world.run_until(world.now_ms + 1000)
    assert done == []
    process.resume()
    world.run_until(world.now_ms + 1000)
    assert sorted(done) == ["answer", "disk", "timer"]


def test_a_dead_process_does_nothing_any_more() -> None:
    world, done = World(1), list[str]()
    process = SimServices(world)
    process.later(10, lambda: done.append("timer"))
    process.offload(lambda: done.append("disk"), lambda _: done.append("answer"))
    process.soon(lambda: done.append("soon"))
    process.die()
    world.run_until(world.now_ms + 1000)
    assert done == []


def test_a_timer_that_was_cancelled_does_not_ring() -> None:
    world, done = World(1), list[str]()
    process = SimServices(world)
    process.later(10, lambda: done.append("timer")).cancel()
    world.run_until(world.now_ms + 1000)
    assert done == []


def test_the_wall_clock_jumps_and_the_steady_one_does_not() -> None:
    world = World(1)
    process = SimServices(world)
    wall, steady = process.now_ms(), process.uptime_ms()
    process.clock.jumped_ms -= 3_600_000
    assert process.now_ms() == wall - 3_600_000
    assert process.uptime_ms() == steady


def test_a_clock_that_drifts_stays_where_it_was_when_it_changes_its_speed() -> None:
    world = World(1)
    clock = Clock(world)
    world.run_until(world.now_ms + 1000)
    clock.run_at(2.0)
    assert clock.steady_ms() == 1000
    world.run_until(world.now_ms + 1000)
    assert clock.steady_ms() == 3000
    clock.run_at(1.0)
    assert clock.steady_ms() == 3000


def test_timers_go_by_the_own_clock() -> None:
    world, done = World(1), list[float]()
    process = SimServices(world)
    process.clock.run_at(2.0)
    began = world.now_ms
    process.later(100, lambda: done.append(world.now_ms - began))
    world.run_until(world.now_ms + 1000)
    assert done == [50]


def written_disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    file = disk.open("d/f", create=True)
    disk.sync_directory("d")
    file.write_at(0, b"safe")
    file.sync()
    file.write_at(4, b" and not")
    return disk


def test_a_killed_process_leaves_everything_but_nothing_safer_than_it_was() -> None:
    disk = written_disk()
    disk.process_died()
    assert disk.contents("d") == {"d/f": b"safe and not"}
    disk.crash(nothing, nothing)
    assert disk.contents("d") == {"d/f": b"safe"}


def test_a_failed_sync_is_never_made_good() -> None:
    disk = written_disk()
    file = disk.open("d/f")
    disk.failing["sync"] = EIO
    try:
        file.sync()
    except OSError as error:
        assert error.errno == EIO
    disk.failing.clear()
    file.sync()
    assert file.read_at(0, 100) == b"safe and not"
    disk.crash(everything, everything)
    assert disk.contents("d") == {"d/f": b"safe"}


def test_a_flipped_bit_survives_everything() -> None:
    disk = written_disk()
    disk.flip("d/f", 0, 0)
    disk.crash(nothing, nothing)
    assert disk.contents("d") == {"d/f": b"rafe"}


def test_a_new_disk_is_empty() -> None:
    disk = written_disk()
    disk.wipe()
    assert not disk.exists("d")


def test_a_directory_made_under_an_old_name_is_another_one() -> None:
    """Its files are synced before the change of names is: they must not go where the old ones went."""
    disk = written_disk()
    disk.rename("d", "gone")
    disk.make_directory("d")
    disk.open("d/f", create=True).write_at(0, b"new")
    disk.open("d/f").sync()
    disk.sync_directory("d")
    disk.sync_directory("")
    disk.crash(nothing, nothing)
    assert disk.contents("d") == {"d/f": b"new"}
