from seeds import ModeSeeds


class TestIsr(ModeSeeds):
    mode = "isr"
