"""Output of several ranks to one stream, in a form that reveals which rank wrote each byte, and
whether bytes were lost or reordered.
"""

# The program that each rank runs. The two highest bits of each byte are the rank. The other bits
# follow a sequence with a long period, which includes NUL and newlines.
STREAM = """import os, sys
rank = int(os.environ["RANK"])
table = bytes(64 * rank + i % 64 for i in range(256))
for block in range(int(sys.argv[1])):
    data = (block.to_bytes(4, "big") + bytes(range(60))) * 16384
    data = data.translate(table)
    while data:
        data = data[os.write(1, data):]
"""


def check_streams(stream, ranks, megabytes):
    """Read the stream to its end and return a list of problems."""
    others = [bytes(value for value in range(256) if value // 64 != rank) for rank in range(ranks)]
    tables = [bytes(64 * rank + i % 64 for i in range(256)) for rank in range(ranks)]
    rest = [b""] * ranks
    block = [0] * ranks
    problems = []
    while data := stream.read(1 << 20):
        for rank in range(ranks):
            rest[rank] += data.translate(None, others[rank])
            while len(rest[rank]) >= 1 << 20 and block[rank] < megabytes:
                expected = ((block[rank].to_bytes(4, "big") + bytes(range(60))) * 16384).translate(tables[rank])
                if rest[rank][:1 << 20] != expected:
                    return [f"rank {rank}: block {block[rank]} is not what the rank wrote"]
                rest[rank] = rest[rank][1 << 20:]
                block[rank] += 1
    for rank in range(ranks):
        if block[rank] != megabytes or rest[rank]:
            problems.append(f"rank {rank}: {block[rank]} of {megabytes} blocks are complete, followed by {len(rest[rank])} bytes")
    return problems
