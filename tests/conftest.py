"""What every test may use. The broker fixtures come from Tidelog's own pytest plugin."""

pytest_plugins = ["pytester"]
