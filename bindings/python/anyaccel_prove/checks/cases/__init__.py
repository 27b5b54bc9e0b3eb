"""The table of op checks: the cases of each op builder, by the builder's class name."""

from . import attention, host, inference, layers, optimizers, quantizers

CASES = {**optimizers.CASES, **quantizers.CASES, **attention.CASES, **layers.CASES, **inference.CASES, **host.CASES}
# Builders without a case, with the reason.
NO_KERNELS = {
    "CCLCommBuilder": "its collectives need several ranks; the tests of the communication library cover them",
    "ShareMemCommBuilder": "its collectives need several ranks; the tests of the communication library cover them",
    "DecoderTrainingBuilder": "its kernels exist only on the CPU; on other devices, training uses torch's ops",
    "RaggedOpsBuilder": "it exists only on the CPU, where it would be compared with itself",
}
