"""The bench's handle on its load process."""

import dataclasses
import json
import subprocess
import sys

from bench.load.job import Job, Outcome
from bench.process import BenchError
from bench.servers import REPOSITORY


class LoadProcess:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=REPOSITORY,
            text=True,
            bufsize=1,
        )

    def run(self, job: Job) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(dataclasses.asdict(job)) + "\n")
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the load process ended during a {job.kind} job")
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{job.kind} with {job.client}: {answer['error']}")
        return Outcome(**answer)

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
