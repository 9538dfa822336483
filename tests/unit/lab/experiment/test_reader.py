"""Files of experiments: what is read, and how mistakes are named."""

import pytest

from tidelog.lab.experiment.checking import ExperimentError
from tidelog.lab.experiment.model import ConsumerSpec, LoadSpec
from tidelog.lab.experiment.reader import read_text

GOOD = """\
title = "two topics"
rounds = 2
lasts = 6

[cluster]
brokers = 5
settings = { "broker.session.timeout.ms" = 2000 }

[[topics]]
name = "a"
mode = "quorum"

[[topics]]
name = "b"
replicas = 5
[topics.settings]
min.insync.replicas = 3

[[loads]]
topic = "a"
rate = 10

[[loads]]
topic = "b"

[[timeline]]
at = 2
fault = "kill"
on = "leader+2"
lasts = 1.5
topic = "b"

[[timeline]]
at = 1
fault = "delay"
between = ["leader", "all"]
ms = 7.5
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises(ExperimentError) as failure:
        read_text(text, "mine", "mine.toml")
    return list(failure.value.mistakes)


def with_title(text: str) -> str:
    return f'title = "x"\n{text}'


class TestWhatIsRead:
    def test_values_are_those_of_the_file(self) -> None:
        found = read_text(GOOD, "mine", "mine.toml")
        assert (found.name, found.title, found.rounds, found.lasts) == ("mine", "two topics", 2, 6.0)
        assert found.cluster.brokers == 5
        assert [topic.name for topic in found.topics] == ["a", "b"]
        assert found.loads == (LoadSpec(topic="a", rate=10.0), LoadSpec(topic="b"))
        assert found.source == GOOD

    def test_dotted_settings_are_one_name_with_a_text(self) -> None:
        assert read_text(GOOD, "mine", "").topics[1].settings == {"min.insync.replicas": "3"}

    def test_the_timeline_is_sorted_and_parameters_are_apart(self) -> None:
        delay, kill = read_text(GOOD, "mine", "").timeline
        assert (delay.fault, delay.between, delay.parameters) == ("delay", ("leader", "all"), {"ms": 7.5})
        assert (kill.on, kill.lasts, kill.topic, kill.parameters) == ("leader+2", 1.5, "b", {})

    def test_without_consumers_every_topic_has_a_group_of_its_own(self) -> None:
        found = read_text(GOOD, "mine", "").consumers
        assert [each.topic for each in found] == ["a", "b"]
        assert len({each.group for each in found}) == 2

    def test_no_consumers_can_be_asked_for(self) -> None:
        assert read_text(with_title("consumers = []"), "mine", "").consumers == ()

    def test_without_anything_there_is_one_topic_with_a_load(self) -> None:
        found = read_text(with_title(""), "mine", "")
        assert [topic.name for topic in found.topics] == ["records"]
        assert found.loads == (LoadSpec(),)
        assert found.consumers == (ConsumerSpec(group="readers-of-records"),)

    def test_phases_have_timelines(self) -> None:
        text = with_title(
            '[[phases]]\nname = "p"\ntitle = "t"\nlasts = 3\n[[phases.timeline]]\nat = 1\nfault = "stop"\n'
        )
        (phase,) = read_text(text, "mine", "").phases
        assert (phase.name, phase.lasts, phase.timeline[0].fault) == ("p", 3.0, "stop")

    def test_a_number_for_acks_is_what_everybody_writes_first(self) -> None:
        text = with_title("[[loads]]\nacks = 1\nidempotent = false\n")
        assert read_text(text, "mine", "").loads[0].acks == "1"


class TestMistakes:
    def test_all_are_named_at_once_in_the_order_of_lines(self) -> None:
        text = 'title = "x"\nrounds = "3"\n[cluster]\nbrokers = 77\n[[topics]]\nreplicaz = 2\n'
        found = mistakes(text)
        assert [line.split(": ")[0] for line in found] == ["mine.toml:2", "mine.toml:4", "mine.toml:6"]

    @pytest.mark.parametrize(
        ("text", "line", "words"),
        [
            ("rounds = 'x'", 2, "rounds is 'x'; it must be a whole number"),
            ("rounds = true", 2, "rounds is True; it must be a whole number"),
            ("rounds = 0", 2, "rounds is 0; allowed: 1 to 100000"),
            ("wrong = 1", 2, "unknown key 'wrong'; allowed: title, rounds, before"),
            ("[cluster]\nbroker = 3", 3, "unknown key 'broker' in [cluster]; allowed: brokers, racks"),
            ("[cluster]\ncontrollers = 4", 3, "controllers is 4; allowed: 0 to 3"),
            ("[cluster.settings]\n'node.id' = 3", 3, "the lab sets node.id itself"),
            ("[cluster.settings]\nlog.what = 3", 3, "unknown broker setting 'log.what'"),
            ("[[topics]]\nmode = 'raft'", 3, "unknown mode 'raft'; allowed: isr, primary-backup, quorum"),
            ("[[topics]]\nreplicas = 4", 3, "replicas is 4; there are 3 brokers"),
            ("[[topics]]\n[[topics]]\nname = 'records'", 4, "there are two topics 'records'"),
            ("[[topics]]\nmode = 'quorum'\nsettings = {'min.insync.replicas' = 2}", 4, "no meaning"),
            ("[[topics]]\nsettings = {'no.such' = 2}", 3, "no.such"),
            ("[[loads]]\ntopic = 'other'", 3, "there is no topic 'other'; there are: records"),
            ("[[consumers]]\ntopic = 'other'", 3, "there is no topic 'other'; there are: records"),
            ("[[loads]]\nacks = 'most'", 3, "acks is 'most'; allowed: all, 1, 0"),
            ("[[loads]]\nacks = 1", 3, "an idempotent or transactional producer needs acks"),
            ("[[topics]]\nname = 'a'\n[[topics]]\nname = 'b'\n[[loads]]\ntopic = 'a'", 5, "'b' has no load"),
            ("[[loads]]\nsettings = {acks = 0}", 3, "the lab sets acks itself; use the key acks"),
            ("[[loads]]\n[loads.settings]\nenable.idempotence = false", 4, "use the key idempotent"),
            ("[[consumers]]\nsettings = {'isolation.level' = 'x'}", 3, "use the key committed"),
            ("[[topics]]\nsettings = {'cleanup.policy' = 'compact'}", 3, "compaction deletes records"),
            ("[[topics]]\nsettings = {'retention.ms' = 1000}", 3, "use 3600000 or more"),
            ("[[topics]]\nsettings = {'retention.bytes' = 1000}", 3, "retention deletes records"),
            ("[[timeline]]\nat = 0\nfault = 'change-mode'\nmode = 'raft'", 5, "unknown mode 'raft'"),
            ("[[timeline]]\nat = 0\nfault = 'change-settings'\nsettings = 'x'", 5, '"name=value"'),
            ("[[timeline]]\nat = 0\nfault = 'change-settings'", 2, '"name=value"'),
            ("[[timeline]]\nat = 0\nfault = 'kil'", 4, "unknown fault 'kil'; allowed: kill, freeze"),
            ("[[timeline]]\nfault = 'kill'", 2, "at is missing in [[timeline]]"),
            ("[[timeline]]\nat = 0\nfault = 'kill'\nms = 3", 5, "unknown key 'ms' of fault kill"),
            ("[[timeline]]\nat = 0\nfault = 'slow-disk'\nms = 'x'", 5, "ms is 'x'; it must be of type float"),
            ("[[timeline]]\nat = 0\nfault = 'kill'\non = 'boss'", 5, "'boss' is no party; allowed"),
            ("[[timeline]]\nat = 0\nfault = 'kill'\non = '4'", 5, "a broker from 1 to 3"),
            ("[[timeline]]\nat = 0\nfault = 'cut'\non = 'leader'", 5, "cut has no 'on'; use between"),
            ("[[timeline]]\nat = 0\nfault = 'cut'", 2, "cut is between two"),
            ("[[timeline]]\nat = 0\nfault = 'kill'\nbetween = ['leader', 'all']", 5, "no 'between'; use on"),
            ("[[timeline]]\nat = 0\nfault = 'restart'\nlasts = 1", 5, "in a moment; remove lasts"),
            ("[[timeline]]\nat = 0\nfault = 'kill'\ntopic = 'other'", 5, "there is no topic 'other'"),
            ("lasts = 3\n[[timeline]]\nat = 2\nfault = 'kill'\nlasts = 2", 4, "ends 4 s after the start"),
            ("topics = 3", 2, "topics must be tables: [[topics]]"),
            ("cluster = 3", 2, "cluster must be a table: [cluster]"),
            ("[[timeline]]\nat = 0\nfault = 'kill'\n[[phases]]\nname = 'p'\ntitle = 't'", 2, "not both"),
            ("[[phases]]\nname = 'p'\ntitle = 't'\n[[phases.timeline]]\nat = 0\nfault = 'x'", 7, "fault 'x'"),
        ],
    )  # fmt: skip
    def test_a_mistake_has_its_line_and_what_is_allowed(self, text: str, line: int, words: str) -> None:
        found = mistakes(with_title(text))
        assert any(each.startswith(f"mine.toml:{line}: ") and words in each for each in found), found

    def test_a_title_is_needed(self) -> None:
        assert mistakes("rounds = 1") == ["mine.toml:1: title is missing"]

    def test_broken_toml_is_named_with_its_line(self) -> None:
        (found,) = mistakes('title = "x"\nrounds = = 3\n')
        assert found.startswith("mine.toml:2: not valid TOML: ")
        assert "(at line" not in found
