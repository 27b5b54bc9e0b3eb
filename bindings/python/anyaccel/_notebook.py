"""Displays an accelerator in notebooks as a table of its devices."""

import html


def amount(count):
    """Format a number of bytes with a binary unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def table(title, head, rows):
    cells = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    return f"<table><caption>{html.escape(title)}</caption><tr>{head}</tr>{cells}</table>"


def accelerator_html(accelerator):
    rows = []
    for index in range(accelerator.device_count()):
        free, total = accelerator.memory_info(index)
        mark = "*" if index == accelerator.current_device() else ""
        rows.append((f"{index}{mark}", accelerator.device_properties(index).name, amount(accelerator.memory_allocated(index)), amount(free),
                     amount(total)))
    return table(f"anyaccel.Accelerator {accelerator.name()!r}", ("device", "name", "allocated", "free", "total"), rows)
