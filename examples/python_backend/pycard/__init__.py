"""A backend for AnyAccel. Importing it starts nothing."""
