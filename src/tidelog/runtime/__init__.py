"""Where the pure parts meet the world: sockets, event loop, files, threads and clocks. It decides nothing."""
