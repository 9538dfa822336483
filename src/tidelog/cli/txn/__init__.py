"""``tidelog txn``: transactions and who holds them open."""
