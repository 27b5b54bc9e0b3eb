"""Builder classes for DeepSpeed.

They derive from DeepSpeed's OpBuilder, and their load() returns AnyAccel's ops.
"""

from ..errors import Error

# Builders that DeepSpeed's Python code imports, and all builders listed by
# `deepspeed.ops.__compatible_ops__` and ds_report.
NAMES = ("AsyncIOBuilder", "CCLCommBuilder", "CPUAdagradBuilder", "CPUAdamBuilder", "CPULionBuilder", "DeepCompileBuilder",
         "EvoformerAttnBuilder", "FPQuantizerBuilder", "FusedAdamBuilder", "FusedLambBuilder", "FusedLionBuilder", "GDSBuilder",
         "InferenceBuilder", "InferenceCoreBuilder", "InferenceCutlassBuilder", "NotImplementedBuilder", "PinMemoryBuilder",
         "QuantizerBuilder", "RaggedOpsBuilder", "RaggedUtilsBuilder", "RandomLTDBuilder", "ShareMemCommBuilder",
         "SpatialInferenceBuilder", "StochasticTransformerBuilder", "TransformerBuilder", "UtilsBuilder")


class NotImplementedOp(Error, ValueError):
    """Raised for ops that AnyAccel lacks.

    It derives from ValueError because DeepSpeed's own builder raises ValueError in this case.
    """


def builder_class(own, class_name):
    """Return the builder class for a DeepSpeed builder name. Never None."""
    from deepspeed.ops.op_builder.builder import OpBuilder
    members = dict(vars(_Members), NAME=own.get_op_builder(class_name).NAME, _own=own, _class_name=class_name)
    for name in ("__dict__", "__weakref__"):
        members.pop(name, None)
    members["BUILD_VAR"] = "DS_BUILD_" + members["NAME"].upper()
    if class_name == "FPQuantizerBuilder":  # DeepSpeed calls these on the class, before loading the op
        from ..ops import fp_quantizer
        for name in ("get_default_quant_dtype", "get_quant_range"):
            members[name] = staticmethod(getattr(fp_quantizer, name))
    return type(OpBuilder)(class_name, (OpBuilder,), members)


class _Members:

    def __init__(self, name=None):
        super(type(self), self).__init__(name=self.NAME if name is None else name)
        self._ours = self._own.create_op_builder(self._class_name)

    def absolute_name(self):
        return self._ours.absolute_name()

    def sources(self):
        """Return an empty list, because the ops are built by `anyaccel ops build` instead of
        DeepSpeed.
        """
        return []

    def is_compatible(self, verbose=False):
        return self._ours.is_compatible(verbose)

    def builder(self):
        """Raise NotImplementedOp, because DeepSpeed's setup.py cannot build AnyAccel's ops."""
        raise NotImplementedOp(f"[{self._class_name}::builder] AnyAccel's ops are not setuptools extensions; install DeepSpeed with "
                               "DS_BUILD_OPS=0", "unsupported")

    def load(self, verbose=True):
        try:
            return self._ours.load(verbose)
        except Error as error:
            if error.code != "unsupported":
                raise
            raise NotImplementedOp(str(error), error.code) from error

    def jit_load(self, verbose=True):
        return self.load(verbose)
