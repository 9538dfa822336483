"""The environment of the pure parts: sockets, event loop, files, threads and clocks. No decisions are made
here.
"""
