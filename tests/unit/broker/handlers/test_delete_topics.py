"""DeleteTopics, by name and by id, at every version."""

from tidelog.errors import ErrorCode
from unit.broker.fakes import FakeBroker
from unit.broker.handlers.topic_requests import codes, new, versions


class TestDelete:
    @versions(1, 5)
    def test_by_name(self, broker: FakeBroker, version: int) -> None:
        broker.create("a")
        answer = broker.call("delete_topics", version, topic_names=["a", "b"])
        assert codes(answer.responses) == [("a", 0), ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
        assert set(broker.store.image.topics) == set()

    def test_by_name_or_id(self, broker: FakeBroker) -> None:
        first, second = broker.create("a"), broker.create("b")
        topics = [{"name": "a"}, {"name": None, "topic_id": second}]
        answer = broker.call("delete_topics", 6, topics=topics)
        assert [(each.name, each.topic_id) for each in answer.responses] == [("a", first), ("b", second)]
        assert {each.error_code for each in answer.responses} == {0}
        assert len(broker.partitions) == 0

    def test_an_unknown_id(self, broker: FakeBroker) -> None:
        unknown = broker.services.new_uuid()
        (answer,) = broker.call("delete_topics", 6, topics=[{"name": None, "topic_id": unknown}]).responses
        assert (answer.name, answer.topic_id, answer.error_code) == (
            None,
            unknown,
            ErrorCode.UNKNOWN_TOPIC_ID,
        )

    def test_both_or_neither(self, broker: FakeBroker) -> None:
        topic_id = broker.create("a")
        topics = [{"name": "a", "topic_id": topic_id}, {"name": None, "topic_id": None}]
        answer = broker.call("delete_topics", 6, topics=topics)
        assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert set(broker.store.image.topics) == {"a"}

    def test_named_twice_in_a_request(self, broker: FakeBroker) -> None:
        topic_id = broker.create("a")
        for topics in (
            [{"name": "a"}, {"name": "a"}],
            [{"name": "a"}, {"name": None, "topic_id": topic_id}],
        ):
            answer = broker.call("delete_topics", 6, topics=topics)
            assert [each.error_code for each in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        assert set(broker.store.image.topics) == {"a"}

    def test_an_id_never_deletes_a_new_topic_of_the_name(self, broker: FakeBroker) -> None:
        old = broker.create("a")
        broker.store.held = True
        by_name = broker.begin("delete_topics", 6, topics=[{"name": "a"}])
        again = broker.begin("create_topics", topics=[new("a")])
        by_id = broker.begin("delete_topics", 6, topics=[{"name": None, "topic_id": old}])
        broker.store.commit()
        broker.services.settle()
        assert by_name.is_complete
        assert again.is_complete
        assert by_id.is_complete
        assert set(broker.store.image.topics) == {"a"}
        assert broker.topic_id("a") != old

    def test_where_it_is_not_allowed(self) -> None:
        broker = FakeBroker(delete_topic_enable=False)
        broker.create("a")
        answer = broker.call("delete_topics", topics=[{"name": "a"}])
        assert codes(answer.responses) == [("a", ErrorCode.TOPIC_DELETION_DISABLED)]
