"""``tidelog plan``: needs in, settings and their exact faults out."""
