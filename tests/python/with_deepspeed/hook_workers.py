"""For each multiprocessing start method, prints the module of DeepSpeed's accelerator in a worker,
as JSON.
"""

import json
import multiprocessing


def seen(_=None):
    from deepspeed.accelerator import get_accelerator
    return type(get_accelerator()).__module__


if __name__ == "__main__":
    found = {}
    for way in ("fork", "forkserver", "spawn"):
        with multiprocessing.get_context(way).Pool(1) as pool:
            found[way] = pool.map(seen, [0])[0]
    print("RESULT " + json.dumps(found))
