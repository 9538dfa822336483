from seeds import ModeSeeds


class TestChanges(ModeSeeds):
    mode = "changes"
