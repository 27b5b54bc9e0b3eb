"""In place of the tests of generate(), which the source distribution lacks."""


class GenerationTesterMixin:
    pass
