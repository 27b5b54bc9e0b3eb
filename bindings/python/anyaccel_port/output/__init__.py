"""The formats of reports. Each module has `render(report)`, which returns the report's text."""
