"""Converts the output of each part to data for the report."""

import json
import shlex

ENDED = "the process ended during this check"


def conformance(command):
    """Return a reader of the conformance kit's JSON. `command` runs the kit in a shell, without
    output options.
    """
    def read(output):
        found = json.loads(output)
        grades = {grade: found["summary"][grade] for grade in ("required", "recommended", "optional")}
        bad = [case for case in found["cases"] if case["outcome"] == "failed"]
        text = ", ".join(f"{grade} {counts['passed']} passed {counts['failed']} failed" for grade, counts in grades.items())
        return {
            "summary": text, "grades": grades, "failed_cases": [f"{case['suite']}.{case['name']}" for case in bad], "failures": [{
                "name": f"{case['suite']}.{case['name']}", "message": case["message"],
                "command": f"{command} --case {shlex.quote(case['suite'] + '.' + case['name'])}"
            } for case in bad]
        }

    return read


def lines_of(output):
    """Return the JSON objects in the output. Libraries may have printed other lines."""
    out = []
    for line in output.splitlines():
        if line.startswith("{"):
            try:
                out.append(json.loads(line))
            except ValueError:
                continue  # the process was killed while it wrote this line
    return out


def checks(command):
    """Return a reader of the lines of checks/ops.py and checks/end_to_end.py. A check that
    began but did not end either crashed the process or was interrupted by the time limit.
    """
    def read(output):
        begun, failures, summary, counts = None, [], "", {}
        for line in lines_of(output):
            if "begin" in line:
                begun = line["begin"]
            elif "check" in line:
                begun = None
                counts[line["status"]] = counts.get(line["status"], 0) + 1
                if line["status"] == "failed":
                    failures.append({
                        "name": line["check"], "message": line["message"],
                        "command": f"{command} --only {shlex.quote(line['check'])}"
                    })
            elif "summary" in line:
                summary = line["summary"]
        if begun is not None:
            failures.append({
                "name": begun, "message": ENDED, "command": f"{command} --only {shlex.quote(begun)}"
            })
        if not summary:
            summary = ", ".join(f"{count} {status}"
                                for status, count in counts.items()) + (f"; ended during {begun}" if begun else "")
        return {"summary": summary, "checks": counts, "failures": failures}

    return read


def table(name):
    """Return a reader of one JSON object with a list of rows and a summary."""
    def read(output):
        found = lines_of(output)[-1]
        return {name: found[name], "summary": found["summary"]}

    return read


def benchmark(declared, small):
    """Return a reader that compares the output of one round with the benchmark's targets, which
    do not apply to small sizes.
    """
    def read(output):
        numbers = json.loads(output.strip().splitlines()[-1])
        if small:
            return {"summary": "ran with small sizes, which have no targets", "numbers": numbers}
        rows = []
        for target in declared.targets:
            try:
                value = target.value({declared.sides[0].name: numbers})
            except KeyError:
                continue  # the peer is not installed
            least = target.at_least is not None
            limit = target.at_least if least else target.at_most
            rows.append({
                "text": target.text, "value": value, "limit": limit, "kind": "at least" if least else "at most",
                "met": value >= limit if least else value <= limit
            })
        met = sum(row["met"] for row in rows)
        return {"summary": f"{met} of {len(rows)} targets met, 1 round", "targets": rows, "numbers": numbers}

    return read
