from seeds import ModeSeeds


class TestQuorum(ModeSeeds):
    mode = "quorum"
