"""Results as a page and as JSON."""
