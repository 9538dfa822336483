"""Every setting of the tables."""

import pytest

from tidelog.config import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    BrokerConfig,
    Setting,
)
from unit.config.readings import ALL_SETTINGS


@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=lambda setting: setting.name)
def test_every_default_is_a_value_one_could_give(setting: Setting) -> None:
    text = setting.default_text
    if text is None:
        assert setting.unset, "people must learn what happens while nothing is set"
    else:
        assert setting.parse(text) == setting.default


@pytest.mark.parametrize("setting", ALL_SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_one_sentence(setting: Setting) -> None:
    assert setting.doc[0].isupper()
    assert setting.doc.endswith(".")


@pytest.mark.parametrize("setting", TOPIC_SETTINGS.values(), ids=lambda setting: setting.name)
def test_broker_wide_defaults_agree_with_the_topics_own(setting: Setting) -> None:
    # Which replicas are slowed down is a matter of a topic's own partitions; the mode is fixed at its
    # creation; fewer copies than promised are for a topic that says so itself.
    own = (".throttled.replicas", "replication.mode", "replication.degrade.after.ms")
    assert setting.synonyms or setting.name.endswith(own)
    for position, synonym in enumerate(setting.synonyms):
        assert synonym.name in BROKER_SETTINGS
        # describe.py relies on it: only the first of a chain can change on a running broker.
        assert BROKER_SETTINGS[synonym.name].dynamic == (position == 0)
    if setting.synonyms:
        assert BrokerConfig.parse({}).topic_defaults[setting.attribute] == setting.default
