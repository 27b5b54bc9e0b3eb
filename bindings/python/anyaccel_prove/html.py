"""The report as one HTML file without scripts or external files."""

from html import escape

from . import markdown

STYLE = """:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid #8886; padding: .25rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #8882; padding: .6rem; overflow: auto; }
.passed { color: light-dark(#116329, #7ee787); } .failed, .interrupted { color: light-dark(#a40e26, #ff9492); font-weight: 600; }
.skipped, .blocked { color: light-dark(#57606a, #9198a1); }
.scroll { overflow-x: auto; }
"""


def table(header, rows, right=(), classes=None):
    out = [
        "<div class=\"scroll\"><table><thead><tr>" + "".join(f"<th scope=\"col\">{escape(each)}</th>"
                                                             for each in header) + "</tr></thead><tbody>"
    ]
    for row in rows:
        cells = []
        for number, each in enumerate(row):
            kind = "number" if number in right else classes(number, each) if classes else ""
            cells.append(f"<td class=\"{escape(kind)}\">{escape(str(each))}</td>" if kind else f"<td>{escape(str(each))}</td>")
        out.append("<tr>" + "".join(cells) + "</tr>")
    return [*out, "</tbody></table></div>"]


def page(data):
    title = escape(markdown.title(data))
    out = [
        "<!DOCTYPE html>",
        "<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">",
        f"<title>{title}</title>", f"<style>{STYLE}</style></head><body>", f"<h1>{title}</h1>"
    ]
    out += [f"<p>{escape(line.strip('*'))}</p>" for line in markdown.about(data)]
    out += [
        "<h2>Machine</h2>", *table(
            ("fact", "value"), [(name, value) for name, value in data["facts"].items() if value not in ("", None)])
    ]
    out += [
        "<h2>Parts</h2>", *table(
            ("part", "result", "seconds", "summary"), [(name, part["status"], f"{part['seconds']:.0f}", part.get("summary", ""))
                                                       for name, part in data["parts"].items()],
            right=(2, ),
            classes=lambda number, text: text if number == 1 else "")
    ]
    for name, rows in markdown.measured(data).items():
        out += [
            f"<h2>{escape(name.capitalize())}</h2>",
            *table(markdown.COLUMNS[name], rows, right=range(1 if name != "benchmarks" else 2, 5))
        ]
    found = list(markdown.failed(data))
    if found:
        out += ["<h2>Failures</h2>", f"<p>{markdown.PLACE}</p>"]
        for part, name, message, command, log in found:
            out += [
                f"<h3>{escape(f'{part} {name}'.strip())}</h3>", *([f"<p>{escape(message)}</p>"] if message else []),
                f"<pre>{escape(command)}</pre>",
                *([f"<details><summary>Output</summary><pre>{escape(log)}</pre></details>"] if log.strip() else [])
            ]
    return "\n".join([*out, "</body></html>", ""])
