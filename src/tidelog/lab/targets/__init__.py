"""What an experiment can be run on, behind one small interface."""
