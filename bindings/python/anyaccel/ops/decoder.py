"""Configuration for `torch.ops.anyaccel.inference_decode`, the counterpart of
`anyaccel/ops/decoder.h`.
"""

import dataclasses
import enum
import struct

# Same layout as the C++ structs. The op rejects configurations with a different version number.
_HEAD = struct.Struct("<11i4x6B2x2d")
_LAYER = struct.Struct("<dq")
_VERSION = 1


class Norm(enum.IntEnum):
    RMS = 0
    RMS_PLUS_ONE = 1
    LAYER = 2


class Activation(enum.IntEnum):
    SILU = 0
    GELU = 1
    GELU_TANH = 2
    RELU = 3
    RELU2 = 4


class Part(enum.IntEnum):
    """Which part of each layer a call computes.

    Ranks that split a layer and all-reduce outside of the op compute half a layer per call.
    """

    WHOLE = 0
    ATTENTION = 1
    FEED_FORWARD = 2


@dataclasses.dataclass
class DecoderLayerConfig:
    """Configuration of one layer.

    `window`: number of positions that a token attends to, including itself; 0: all.
    """

    attention_scale: float = 1.0
    window: int = 0


@dataclasses.dataclass
class DecoderConfig:
    """Configuration of a decoder. `pack()` converts it to the op's argument `config`.

    `heads_per_kv_head`: number of query heads that share a KV head; 0: `num_heads / num_kv_heads`,
    which must be an integer. `first_head`: number of query heads that share this rank's first KV
    head but precede this rank's first query head. `experts_per_token`: 0 if no layer has experts.
    `gated`: feed-forward layers multiply by a gate. `norms_after`: norms follow attention and the
    feed-forward part. `final_norm`: a norm precedes the language-model head. `normalize_experts`:
    scale the weights of the chosen experts so that they sum to 1. `sum_attention`,
    `sum_feed_forward`: all-reduce these results among the ranks of the op's argument `sum_group`.
    `attention_softcap`: 0 for no soft cap.
    """

    num_heads: int
    num_kv_heads: int
    head_dim: int
    heads_per_kv_head: int = 0
    first_head: int = 0
    experts_per_token: int = 0
    norm: Norm = Norm.RMS
    activation: Activation = Activation.SILU
    part: Part = Part.WHOLE
    gated: bool = False
    norms_after: bool = False
    final_norm: bool = False
    normalize_experts: bool = False
    sum_attention: bool = False
    sum_feed_forward: bool = False
    norm_eps: float = 1e-5
    attention_softcap: float = 0.0
    layers: list[DecoderLayerConfig] = dataclasses.field(default_factory=list)

    def pack(self):
        """Return the configuration as a list of integers.

        Raise `struct.error` if a value does not fit its type.
        """
        data = _HEAD.pack(_VERSION, len(self.layers), self.num_heads, self.num_kv_heads, self.head_dim, self.heads_per_kv_head, self.first_head,
                          self.experts_per_token, self.norm, self.activation, self.part, self.gated, self.norms_after, self.final_norm,
                          self.normalize_experts, self.sum_attention, self.sum_feed_forward, self.norm_eps, self.attention_softcap)
        data += b"".join(_LAYER.pack(layer.attention_scale, layer.window) for layer in self.layers)
        return list(struct.unpack(f"<{len(data) // 8}q", data))
