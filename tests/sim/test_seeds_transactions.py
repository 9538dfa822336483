from seeds import ModeSeeds


class TestTransactions(ModeSeeds):
    mode = "transactions"
