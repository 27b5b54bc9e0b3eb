"""A backend for AnyAccel. Importing this package does not start a device."""
