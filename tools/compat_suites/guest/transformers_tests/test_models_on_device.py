"""Applies the generic model tests of transformers (ModelTesterMixin and others, from its source
distribution) to small models. torch_device is CUDA, which the simulator replaces.
"""
import os
import unittest
from unittest import mock

import torch
import transformers
from transformers.testing_utils import torch_device

from .test_modeling_common import ModelTesterMixin
from .test_training_mixin import TrainingTesterMixin

BATCH, LENGTH, WORDS = 2, 7, 99

# A group of one process. DeepSpeed reads its size from MPI if these variables are missing, which
# requires mpi4py. Port 0 selects a free port.
ONE_PROCESS = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}


class Tester:
    """Configuration and inputs of a small model, under the names that the mixins use."""

    is_training = True
    batch_size, seq_length, vocab_size = BATCH, LENGTH, WORDS
    hidden_size, num_hidden_layers, num_attention_heads = 32, 2, 4

    def __init__(self, config_class, causal_lm_class=None, sequence_classification_class=None, **arguments):
        self.config_class, self.arguments = config_class, arguments
        self.causal_lm_class, self.sequence_classification_class = causal_lm_class, sequence_classification_class

    def get_config(self):
        return self.config_class(vocab_size=WORDS, hidden_size=self.hidden_size, num_hidden_layers=self.num_hidden_layers,
                                 num_attention_heads=self.num_attention_heads, max_position_embeddings=512, pad_token_id=0,
                                 bos_token_id=1,
                                 eos_token_id=2, **self.arguments)

    def prepare_config_and_inputs_for_common(self):
        ids = torch.randint(3, WORDS, (BATCH, LENGTH), device=torch_device)
        return self.get_config(), {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


class Common(ModelTesterMixin):
    """The generic tests, adapted to the source distribution."""

    def test_generation_tester_mixin_inheritance(self):
        self.skipTest("the source distribution lacks the tests of generate()")

    def setUp(self):
        super().setUp()
        if "with_deepspeed" in self._testMethodName:
            variables = mock.patch.dict(os.environ, ONE_PROCESS)
            variables.start()
            self.addCleanup(variables.stop)
            self.addCleanup(lambda: torch.distributed.is_initialized() and torch.distributed.destroy_process_group())


LLAMA = Tester(transformers.LlamaConfig, transformers.LlamaForCausalLM, intermediate_size=37, num_key_value_heads=2)


class LlamaTest(TrainingTesterMixin, Common, unittest.TestCase):
    all_model_classes = (transformers.LlamaModel, transformers.LlamaForCausalLM, transformers.LlamaForSequenceClassification)
    model_tester = LLAMA


class GPT2Test(TrainingTesterMixin, Common, unittest.TestCase):
    all_model_classes = (transformers.GPT2Model, transformers.GPT2LMHeadModel, transformers.GPT2ForSequenceClassification)
    model_tester = Tester(transformers.GPT2Config, transformers.GPT2LMHeadModel)


class BertTest(Common, unittest.TestCase):
    # Without the training test, which requires a causal language model. More than half of BERT's
    # weights are embeddings, which must fit in each share.
    model_split_percents = (0.5, 0.8, 0.9)
    all_model_classes = (transformers.BertModel, transformers.BertForMaskedLM, transformers.BertForSequenceClassification)
    model_tester = Tester(transformers.BertConfig, None, transformers.BertForSequenceClassification, intermediate_size=37)
