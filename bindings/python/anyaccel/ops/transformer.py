"""BERT-style transformer layers for tensors in host memory, with the names and arguments of
`deepspeed.ops.transformer`.

include/anyaccel/ops/transformer.h describes the options and errors. Invalid arguments raise
ValueError. Besides the classes, the module has the functions that DeepSpeed's own transformer.py
calls: create_transformer_layer_<dtype>, forward_<dtype> and backward_<dtype> for fp32, fp16, bf16
and fp64.
"""

import json
import math

import torch

from .._files import read_regular
from .._untrusted_text import quoted_text
from ._transformer_functions import Functions, Seeds

__path__ = []  # a package in DeepSpeed; see _deepspeed_paths.py

#: Parameters in the order of the op's arguments, with their names in transformers' class BertLayer.
#: The query, key and value parameters are concatenated into one tensor.
PARAMETERS = {
    "attn_qkvw": "attention.self.{}.weight", "attn_qkvb": "attention.self.{}.bias",
    "attn_ow": "attention.output.dense.weight", "attn_ob": "attention.output.dense.bias",
    "attn_nw": "attention.output.LayerNorm.weight", "attn_nb": "attention.output.LayerNorm.bias",
    "inter_w": "intermediate.dense.weight", "inter_b": "intermediate.dense.bias",
    "output_w": "output.dense.weight", "output_b": "output.dense.bias",
    "norm_w": "output.LayerNorm.weight", "norm_b": "output.LayerNorm.bias",
}


def _find(name, stochastic=False):
    builder = "StochasticTransformerBuilder" if stochastic else "TransformerBuilder"
    op = "stochastic_transformer_layer" if stochastic else "transformer_layer"
    if not hasattr(torch.ops.anyaccel, op):
        from .._native import get_accelerator
        get_accelerator().create_op_builder(builder).load()
    return getattr(torch.ops.anyaccel, f"_{op}{name}" if name else op)


def transformer_layer(input, attention_mask, *parameters, heads, **options):
    """Compute a layer from an input [batch, length, hidden], a mask or None, and the parameters
    in the order of PARAMETERS.

    Options are those of torch.ops.anyaccel.transformer_layer. Passing a dropout ratio enables that
    dropout.
    """
    return _find("")(input, attention_mask, *parameters, heads, **options)


class DeepSpeedTransformerConfig:
    """Layer options: DeepSpeed's arguments, and `gelu_approximate` ("tanh" as in DeepSpeed, or
    "none").

    batch_size, local_rank and fp16 are ignored; the tensors' dtype is used.
    """

    def __init__(self, batch_size=-1, hidden_size=-1, intermediate_size=-1, heads=-1, attn_dropout_ratio=-1,
                 hidden_dropout_ratio=-1, num_hidden_layers=-1, initializer_range=-1, layer_norm_eps=1e-12,
                 local_rank=-1, seed=-1, fp16=False, pre_layer_norm=True, normalize_invertible=False,
                 gelu_checkpoint=False, adjust_init_range=True, attn_dropout_checkpoint=False, stochastic_mode=False,
                 return_tuple=False, training=True, gelu_approximate="tanh"):
        self.__dict__.update({name: value for name, value in locals().items() if name != "self"})
        self.intermediate_size = intermediate_size if intermediate_size > 0 else 4 * hidden_size
        self.layer_id = -1

    @classmethod
    def from_dict(cls, json_object):
        config = cls()
        config.__dict__.update(json_object)
        return config

    @classmethod
    def from_json_file(cls, json_file):
        return cls.from_dict(json.loads(read_regular(json_file)))


class DeepSpeedTransformerLayer(torch.nn.Module):
    """A transformer layer: attention and a feed-forward part, each with a residual connection and a
    norm.

    Parameters have DeepSpeed's names and shapes.
    """

    layer_id = 0

    def __init__(self, config, initial_weights=None, initial_biases=None):
        super().__init__()
        self.config = config
        config.layer_id = DeepSpeedTransformerLayer.layer_id
        DeepSpeedTransformerLayer.layer_id += 1
        hidden, inter = config.hidden_size, config.intermediate_size
        if hidden < 1 or config.heads < 1 or hidden % config.heads:
            raise ValueError(f"[DeepSpeedTransformerLayer] hidden_size must be a positive multiple of heads; got {hidden} with "
                             f"{config.heads} heads")
        shapes = {"attn_qkvw": (3 * hidden, hidden), "attn_qkvb": (3 * hidden,), "attn_ow": (hidden, hidden),
                  "inter_w": (inter, hidden), "inter_b": (inter,), "output_w": (hidden, inter)}
        for name in PARAMETERS:
            self.register_parameter(name, torch.nn.Parameter(torch.empty(shapes.get(name, (hidden,)))))
        self.init_transformer_weights(config.adjust_init_range)
        with torch.no_grad():  # lists as in DeepSpeed's tests: query, key, value, attn_o, attn_n, inter, output, norm
            for given, kind in ((initial_weights, "w"), (initial_biases, "b")):
                if given is not None:
                    for name, value in zip(("attn_ow", "attn_nw", "inter_w", "output_w", "norm_w"), given[3:]):
                        getattr(self, name[:-1] + kind).copy_(value)
                    getattr(self, "attn_qkv" + kind).copy_(torch.cat(list(given[:3])))
        self._seeds = Seeds(config.seed + config.layer_id if config.seed >= 0 else -1)
        _find("", config.stochastic_mode)  # load the op, so that errors are raised early

    def init_transformer_weights(self, adjust_init_range=False):
        """Initialize weights from a normal distribution, biases to 0 and norms to 1.

        With `adjust_init_range`, the standard deviation of the weights whose results are added to a
        residual is divided by sqrt(2 * layers).
        """
        std = self.config.initializer_range if self.config.initializer_range >= 0 else 0.02
        layers = self.config.num_hidden_layers
        output_std = std / math.sqrt(2.0 * layers) if adjust_init_range and layers > 0 else std
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if parameter.dim() == 2:
                    parameter.normal_(0.0, output_std if name in ("attn_ow", "output_w") else std)
                else:
                    parameter.fill_(1.0 if name in ("attn_nw", "norm_w") else 0.0)

    def load_hugging_face(self, state_dict, prefix=""):
        """Copy the weights of a transformers BertLayer from `state_dict`, in which their names
        begin with `prefix`.

        A BertLayer corresponds to the options pre_layer_norm=False and, if its activation is
        "gelu", gelu_approximate="none". Missing names raise KeyError.
        """
        with torch.no_grad():
            for mine, name in PARAMETERS.items():
                parts = [state_dict[prefix + name.format(part)] for part in ("query", "key", "value")[:3 if "{}" in name else 1]]
                getattr(self, mine).copy_(torch.cat(parts))
        return self

    @classmethod
    def from_hugging_face(cls, layer, config, **options):
        """Return a layer with the weights of a BertLayer.

        `config` is the model's configuration; `options` override options of the new layer's
        configuration.
        """
        kinds = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh"}
        if config.hidden_act not in kinds:
            raise ValueError(f"[from_hugging_face] the activation is not supported; got {quoted_text(config.hidden_act)}, want one of "
                             f"{sorted(kinds)}")
        weights = layer.state_dict()
        made = cls(DeepSpeedTransformerConfig(**{
            "hidden_size": config.hidden_size, "intermediate_size": config.intermediate_size,
            "heads": config.num_attention_heads, "attn_dropout_ratio": config.attention_probs_dropout_prob,
            "hidden_dropout_ratio": config.hidden_dropout_prob, "num_hidden_layers": config.num_hidden_layers,
            "initializer_range": config.initializer_range, "layer_norm_eps": config.layer_norm_eps,
            "pre_layer_norm": False, "gelu_approximate": kinds[config.hidden_act], **options}))
        first = weights[PARAMETERS["attn_ow"]]
        return made.to(device=first.device, dtype=first.dtype).load_hugging_face(weights).train(layer.training)

    def forward(self, hidden_states, attention_mask=None, head_mask=None, layer_head_mask=None,
                encoder_hidden_states=None, encoder_attention_mask=None, past_key_value=None, output_attentions=False,
                grads=None):
        """Compute the layer for an input [batch, length, hidden].

        A bool mask is True at visible positions; any other mask is added to the scores. The mask is
        broadcast to [batch, heads, length, length]. For DeepSpeed's tests, [gradient, name] of each
        parameter is appended to the list `grads`.
        """
        for name, value in (("head_mask", head_mask), ("layer_head_mask", layer_head_mask),
                            ("encoder_hidden_states", encoder_hidden_states), ("past_key_value", past_key_value),
                            ("output_attentions", output_attentions or None)):
            if value is not None:
                raise ValueError(f"[DeepSpeedTransformerLayer] {name} is not supported; got a value, want None")
        config = self.config
        parameters = [getattr(self, name) for name in PARAMETERS]
        if grads is not None:
            for name, parameter in zip(PARAMETERS, parameters):
                parameter.register_hook(lambda gradient, name=name: grads.append([gradient, name]))
        drops = self.training and max(config.attn_dropout_ratio, config.hidden_dropout_ratio) > 0
        output = _find("", config.stochastic_mode)(
            hidden_states, attention_mask, *parameters, config.heads,
            attn_dropout=max(config.attn_dropout_ratio, 0.0) if drops else 0.0,
            hidden_dropout=max(config.hidden_dropout_ratio, 0.0) if drops else 0.0, eps=config.layer_norm_eps,
            seed=self._seeds.next() if drops else 0, pre_layer_norm=config.pre_layer_norm,
            attn_dropout_checkpoint=config.attn_dropout_checkpoint, normalize_invertible=config.normalize_invertible,
            gelu_checkpoint=config.gelu_checkpoint, stochastic_mode=config.stochastic_mode,
            gelu_approximate=config.gelu_approximate)
        return (output,) if config.return_tuple else output


TransformerConfig = DeepSpeedTransformerConfig
TransformerLayer = DeepSpeedTransformerLayer

_functions = Functions(_find)


def __getattr__(name):
    function = _functions.of(name)
    if function is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return function
