"""``python -m bench.load``: jobs in on stdin, outcomes out on stdout, one JSON object per line."""

import dataclasses
import json
import sys

from bench.load import groups, librdkafka, raw, transactions
from bench.load.job import Job
from bench.process import BenchError

CLIENTS = {"librdkafka": librdkafka, "raw": raw, "groups": groups, "transactions": transactions}


def main() -> None:
    for line in sys.stdin:
        job = Job(**json.loads(line))
        measure = getattr(CLIENTS[job.client], job.kind)
        try:
            answer = dataclasses.asdict(measure(job))
        except (BenchError, OSError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
