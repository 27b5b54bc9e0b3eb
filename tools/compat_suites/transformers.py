"""Generic model tests of Hugging Face Transformers, applied to small models on the GPU. --source is
the folder `tests` of the source distribution on PyPI, which contains these tests."""
import shutil

from .hugging_face import GUEST, Suite


class Transformers(Suite):

    def prepare(self, tests):
        shutil.copytree(GUEST / "transformers_tests", tests, dirs_exist_ok=True)


SUITE = Transformers("Hugging Face Transformers", files=("test_fsdp_on_device.py", "test_models_on_device.py"))
SUITE.needed = ("test_fsdp_mixin.py", "test_modeling_common.py", "test_training_mixin.py")
