from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

PARAMETERS: dict[str, str]

def transformer_layer(input: Tensor, attention_mask: Tensor | None, *parameters: Tensor, heads: int, **options: Any) -> Tensor:
    """Compute a layer from an input [batch, length, hidden], a mask or None, and the parameters
    in the order of PARAMETERS."""

class DeepSpeedTransformerConfig:
    """Layer options: DeepSpeed's arguments, and `gelu_approximate` ("tanh" as in DeepSpeed, or
    "none").
    """

    hidden_size: int
    intermediate_size: int
    heads: int
    layer_id: int
    def __init__(self, batch_size: int = -1, hidden_size: int = -1, intermediate_size: int = -1, heads: int = -1,
                 attn_dropout_ratio: float = -1, hidden_dropout_ratio: float = -1, num_hidden_layers: int = -1,
                 initializer_range: float = -1, layer_norm_eps: float = 1e-12, local_rank: int = -1, seed: int = -1, fp16: bool = False,
                 pre_layer_norm: bool = True, normalize_invertible: bool = False, gelu_checkpoint: bool = False,
                 adjust_init_range: bool = True, attn_dropout_checkpoint: bool = False, stochastic_mode: bool = False,
                 return_tuple: bool = False, training: bool = True, gelu_approximate: str = "tanh") -> None: ...
    @classmethod
    def from_dict(cls, json_object: Mapping[str, Any]) -> DeepSpeedTransformerConfig: ...
    @classmethod
    def from_json_file(cls, json_file: str) -> DeepSpeedTransformerConfig: ...
    def __getattr__(self, name: str) -> Any:
        """Return an option."""

class DeepSpeedTransformerLayer(torch.nn.Module):
    """A transformer layer: attention and a feed-forward part, each with a residual connection and a
    norm.

    Parameters have DeepSpeed's names and shapes.
    """

    layer_id: int
    config: DeepSpeedTransformerConfig
    def __init__(self, config: DeepSpeedTransformerConfig, initial_weights: Sequence[Tensor] | None = None,
                 initial_biases: Sequence[Tensor] | None = None) -> None: ...
    def init_transformer_weights(self, adjust_init_range: bool = False) -> None: ...
    def load_hugging_face(self, state_dict: Mapping[str, Tensor], prefix: str = "") -> DeepSpeedTransformerLayer:
        """Copy the weights of a transformers BertLayer from `state_dict`, in which their names
        begin with `prefix`.
        """
    @classmethod
    def from_hugging_face(cls, layer: torch.nn.Module, config: Any, **options: Any) -> DeepSpeedTransformerLayer:
        """Return a layer with the weights of a BertLayer.

        `config` is the model's configuration; `options` override options of the new layer's
        configuration.
        """
    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None, head_mask: None = None, layer_head_mask: None = None,
                encoder_hidden_states: None = None, encoder_attention_mask: Tensor | None = None, past_key_value: None = None,
                output_attentions: bool = False, grads: list[Any] | None = None) -> Any:
        """Return a tensor [batch, length, hidden], or a 1-tuple that contains it if the config's
        `return_tuple` is set.
        """

TransformerConfig = DeepSpeedTransformerConfig
TransformerLayer = DeepSpeedTransformerLayer

def create_transformer_layer_fp32(layer_id: int, batch_size: int, hidden_dim: int, num_heads: int, intermediate_size: int,
                                  attn_dropout_ratio: float, hidden_dropout_ratio: float, layer_norm_eps: float, seed: int,
                                  pre_or_postLayerNorm: bool, test_gemm: bool = False, attn_dropout_checkpoint: bool = False,
                                  normalize_invertible: bool = False, gelu_checkpoint: bool = False, stochastic_mode: bool = False) -> int:
    """Store a layer's options under its number, for the forward and backward passes. batch_size and
    test_gemm are ignored.
    """
def forward_fp32(layer_id: int, input: Tensor, input_mask: Tensor, attn_qkvw: Tensor, attn_qkvb: Tensor, attn_ow: Tensor,
                 attn_ob: Tensor, attn_nw: Tensor, attn_nb: Tensor, inter_w: Tensor, inter_b: Tensor, output_w: Tensor, output_b: Tensor,
                 norm_w: Tensor, norm_b: Tensor, training_mode: bool, prelayernorm: bool, attn_dropout_checkpoint: bool,
                 normalize_invertible: bool, gelu_checkpoint: bool) -> list[Tensor]:
    """Return the 17 tensors that DeepSpeed's function passes to the backward pass."""
def backward_fp32(layer_id: int, grad_output: Tensor, output: Tensor, inp_norm: Tensor, qkv_tf: Tensor, soft_out: Tensor,
                  ctx_bufB: Tensor, attn_o_inp: Tensor, add_res: Tensor, ff1_inp: Tensor, gelu_inp: Tensor, ff2_inp: Tensor,
                  attn_prob_dropout_mask: Tensor, attn_output_dropout_mask: Tensor, layer_output_dropout_mask: Tensor,
                  attn_layer_norm_var: Tensor, attn_layer_norm_mean: Tensor, layer_norm_var: Tensor, layer_norm_mean: Tensor,
                  input: Tensor, input_mask: Tensor, attn_qkvw: Tensor, attn_qkvb: Tensor, attn_ow: Tensor, attn_ob: Tensor,
                  attn_nw: Tensor, attn_nb: Tensor, inter_w: Tensor, inter_b: Tensor, output_w: Tensor, output_b: Tensor, norm_w: Tensor,
                  norm_b: Tensor) -> list[Tensor]:
    """Return the gradients of the input and the 12 parameters."""

create_transformer_layer_fp16 = create_transformer_layer_fp32
create_transformer_layer_bf16 = create_transformer_layer_fp32
create_transformer_layer_fp64 = create_transformer_layer_fp32
forward_fp16 = forward_fp32
forward_bf16 = forward_fp32
forward_fp64 = forward_fp32
backward_fp16 = backward_fp32
backward_bf16 = backward_fp32
backward_fp64 = backward_fp32
