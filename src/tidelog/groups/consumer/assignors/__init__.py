"""The assignors of consumer groups, by name."""

from collections.abc import Mapping

from tidelog.groups.consumer.assignors import range as range_assignor
from tidelog.groups.consumer.assignors import uniform
from tidelog.groups.consumer.assignors.spec import Assign

ASSIGNORS: Mapping[str, Assign] = {"uniform": uniform.assign, "range": range_assignor.assign}
