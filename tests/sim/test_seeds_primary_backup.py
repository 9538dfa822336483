from seeds import ModeSeeds


class TestPrimaryBackup(ModeSeeds):
    mode = "primary-backup"
