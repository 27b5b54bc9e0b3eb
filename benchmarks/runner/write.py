"""Writes results: tables in Markdown, raw figures in JSON. docs/benchmarks.md is made here and not edited."""
import json

HEAD = """# Benchmarks

Made by `benchmarks/run`; do not edit. To take the figures anew: `make bench`.

How they are taken: the sides of a benchmark run in turn, forward and backward, at least 7 rounds; before each round the
runner waits until other programs are quiet, and a round in which they used more than the stated part of a core is thrown away
and repeated. Without enough quiet rounds no figure is given. Shown is the median, and in brackets the lower and upper
quartile. A target is judged by its median over the rounds, each computed within one round. Peers have the same number of
threads and run in the same minutes. A benchmark whose round takes minutes may have fewer rounds; it says why.
"""


def number(value):
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}" if size else "0"


def spread(item):
    if item["rounds"] == 1:
        return number(item["median"])
    return f"{number(item['median'])} ({number(item['low'])} to {number(item['high'])})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def label(name):
    return "start to end, ms" if name == "wall_ms" else name.replace("_", " ")


def figures(result):
    """One row a number and one column a side, with the ratio when there are two; many sides: one row a side."""
    sides = list(result["numbers"])
    names = []
    for side in sides:
        names += [name for name in result["numbers"][side] if name not in names]
    cell = {(side, name): spread(item) for side, numbers in result["numbers"].items() for name, item in numbers.items()}
    if len(sides) > 3:
        return table(["", *map(label, names)], [[side, *(cell.get((side, name), "") for name in names)] for side in sides])
    head = ["", *sides] + ([f"{sides[1]} / {sides[0]}"] if len(sides) == 2 else [])
    rows = []
    for name in names:
        row = [label(name), *(cell.get((side, name), "") for side in sides)]
        if len(sides) == 2:
            items = [result["numbers"][side].get(name) for side in sides]
            row.append(number(items[1]["median"] / items[0]["median"]) if all(items) and items[0]["median"] else "")
        rows.append(row)
    return table(head, rows)


def section(result):
    out = [f"## {result['title']}", "", result["about"], ""]
    if result["targets"]:
        rows = [[t["text"], f"{t['kind']} {t['limit']:g} {t['unit']}".strip(), spread(t), "pass" if t["pass"] else "**miss**"]
                for t in result["targets"]]
        out += [table(["target", "wanted", "measured", ""], rows), ""]
    out += [figures(result), ""]
    for name in result["absent"]:
        out.append(f"Left out because it is not installed: {name}.")
    for text in result["not_judged"]:
        out.append(f"Not judged because a side was left out: {text}.")
    if result["absent"]:
        out.append("")
    if result.get("few_rounds"):
        raw = "; ".join(f"{side} {', '.join(map(number, values))}" for side, numbers in result["raw"].items() for values in numbers.values())
        out += [f"Fewer than 7 rounds: {result['few_rounds']} All figures, round by round: {raw}.", ""]
    m, v = result["machine"], result["versions"]
    out.append(f"{result['date']}, {m['cpu']}, {m['cores']} cores, {m['system']}, commit {v['commit']}, LibTorch {v['libtorch']}, "
               f"of Python peers {v['libtorch_of_peers'] or 'none'}; {result['rounds']} round{'s' if result['rounds'] > 1 else ''}, {result['disturbed']} repeated, "
               f"others used at most {result['load']:.2f} cores (limit {result['max_load']:g}).")
    if result["max_load"] > 0.5:
        out.append("\n**Trial on a busy machine: not figures to quote.**")
    return "\n".join(out) + "\n"


def record(page, result, order):
    """Puts a result in the page and the JSON file beside it; results of other benchmarks there stay."""
    store = page.with_suffix(".json")
    results = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    results[result["name"]] = result
    results = {name: results[name] for name in order if name in results}
    page.parent.mkdir(parents=True, exist_ok=True)
    store.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    page.write_text("\n".join([HEAD, *(section(item) for item in results.values())]), encoding="utf-8")
