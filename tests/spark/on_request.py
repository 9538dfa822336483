"""Tests that take minutes because they start Spark several times: ``TIDELOG_TEST_SPARK_LONG=1`` runs them."""

import os

import pytest

on_request = pytest.mark.skipif(
    not os.environ.get("TIDELOG_TEST_SPARK_LONG"), reason="takes minutes; TIDELOG_TEST_SPARK_LONG=1 runs it"
)
