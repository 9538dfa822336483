"""One file per bench; each has ``run(options) -> list[Report]``."""
