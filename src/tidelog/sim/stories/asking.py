"""How a story's client sends requests other than Produce and Fetch."""

from tidelog.protocol.messages import Fields
from tidelog.sim.clients.client import Reply, RequestCall
from tidelog.sim.story import Story
from tidelog.sim.telling import STEP_MS

PATIENCE_MS = 500.0


def ask(
    story: Story,
    broker: int,
    api_key: int,
    body: Fields,
    patience_ms: float = PATIENCE_MS,
    version: int | None = None,
) -> list[Reply]:
    """Receives the response."""
    heard: list[Reply] = []
    call = RequestCall(story.client.client_id, story.client.next_number(), api_key, body, version)
    story.client.ask(broker, call, heard.append, patience_ms)
    return heard


def wait_for(story: Story, heard: list[Reply]) -> Reply:
    while not heard:
        story.run(STEP_MS)
    return heard[0]
