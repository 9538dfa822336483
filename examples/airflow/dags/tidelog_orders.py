"""Airflow: archive a topic every five minutes, and prove every night that nothing is missing.

For Airflow 3 with the standard provider. Workers need `pip install "tidelog[spark]"` and Java 17 or newer.
A run that overlaps another, is killed or is repeated does no harm: the archive's position is in the archive.
"""

import os
from datetime import datetime, timedelta
from shlex import quote

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

TOPIC = os.environ.get("ORDERS_TOPIC", "orders")
ARCHIVE = os.environ.get("ORDERS_ARCHIVE", "/data/orders")
BOOTSTRAP = os.environ.get("TIDELOG_BOOTSTRAP", "127.0.0.1:9092")

START = datetime(2026, 1, 1)
RETRIES = {"retries": 3, "retry_delay": timedelta(minutes=1)}


def pipeline(*words: str) -> str:
    """A command that Airflow runs in a shell; the words are literal, also if they look like a template."""
    command = " ".join(
        quote(word) for word in ("tidelog", "pipeline", *words, "--bootstrap", BOOTSTRAP, "--json")
    )
    return "{% raw %}" + command + "{% endraw %}"


with DAG(
    "tidelog_orders_archive",
    schedule=timedelta(minutes=5),
    start_date=START,
    catchup=False,  # a later run archives what an earlier one would have
    max_active_runs=1,
    default_args=RETRIES,
):
    BashOperator(task_id="archive", bash_command=pipeline("archive", TOPIC, "--to", ARCHIVE))

with DAG(
    "tidelog_orders_audit",
    schedule="@daily",
    start_date=START,
    catchup=False,
    max_active_runs=1,
):
    # Not repeated if it fails: a finding does not go away.
    BashOperator(task_id="audit", bash_command=pipeline("audit", TOPIC, "--archive", ARCHIVE))
