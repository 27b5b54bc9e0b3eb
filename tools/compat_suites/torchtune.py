"""torchtune's tests that use CUDA, on the simulator in place of CUDA.

Tests that require torchtune's recipes, which load checkpoints, are not selected.
"""
from . import session

TITLE = "torchtune's tests"
MARK = "torchtune/training/test_distributed.py"
can_resume = True

FILES = (
    "tests/torchtune/data/test_collate.py",
    "tests/torchtune/modules/low_precision/test_nf4_linear.py",
    "tests/torchtune/modules/peft/test_dora.py",
    "tests/torchtune/modules/test_attention_utils.py",
    "tests/torchtune/training/test_activation_offloading.py",
    "tests/torchtune/training/test_distributed.py",
    "tests/torchtune/training/test_precision.py",
    "tests/torchtune/training/test_profiler.py",
    "tests/torchtune/utils/test_device.py",
)


def run(options, excluded):
    """Run FILES from the source folder, torchtune's folder `tests`, and return their
    report.Results.
    """
    return session.run(options, session.selected(FILES, options.only), excluded, mark=MARK, prefix=session.in_place_of_cuda(options),
                       above=True, arguments=("--without-integration",))
