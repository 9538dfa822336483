from seeds import ModeSeeds


class TestControllers(ModeSeeds):
    mode = "controllers"
