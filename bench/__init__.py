"""Measurements of Tidelog beside a bare sink (the ceiling) and Apache Kafka (the peer); run as ``./dev bench
NAME``.

Owns the load, the clocks and the tables. Knows the broker only from outside: its command line, the Kafka
protocol, Kafka's file layout, and what ``/proc`` says about its process.
"""
