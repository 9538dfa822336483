"""Real clients against a real broker process; see conftest.py for which broker that is."""
