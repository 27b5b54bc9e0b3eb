"""A backend for AnyAccel. Importing this package does not initialize a device."""
