"""Stands in for the tests of generate(), which are missing from the source distribution."""


class GenerationTesterMixin:
    pass
