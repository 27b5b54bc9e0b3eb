"""The functions that DeepSpeed's transformer.py calls, implemented with our op."""

import functools

import torch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}


class Seeds:
    """Generates a seed for each call. Uses a generator seeded with `seed`, or torch's default
    generator if `seed` is negative.
    """

    def __init__(self, seed):
        self._generator = torch.Generator().manual_seed(seed) if seed >= 0 else None

    def next(self):
        return int(torch.randint(0, 2**62, (), generator=self._generator))


class Functions:
    """Stores an op's layers by number, and provides its functions by name."""

    def __init__(self, op):
        self._op = op
        self._layers = {}

    def of(self, name):
        """Return create_transformer_layer_<dtype>, forward_<dtype> or backward_<dtype>, or None
        for other names."""
        for prefix, function in (("create_transformer_layer_", self._create), ("forward_", self._forward),
                                 ("backward_", self._backward)):
            dtype = DTYPES.get(name[len(prefix):]) if name.startswith(prefix) else None
            if dtype is not None:
                call = functools.partial(function, dtype)
                call.__name__ = call.__qualname__ = name
                call.__doc__ = function.__doc__
                return call
        return None

    def _create(self, dtype, layer_id, batch_size, hidden_dim, num_heads, intermediate_size, attn_dropout_ratio,
                hidden_dropout_ratio, layer_norm_eps, seed, pre_or_postLayerNorm, test_gemm=False,
                attn_dropout_checkpoint=False, normalize_invertible=False, gelu_checkpoint=False,
                stochastic_mode=False):
        """Store a layer's options under its number, for the forward and backward passes. batch_size
        and test_gemm are ignored.
        """
        self._op("")  # load the op, so that errors are raised early
        self._layers[layer_id, dtype] = {
            "heads": num_heads, "attn_dropout": max(attn_dropout_ratio, 0.0),
            "hidden_dropout": max(hidden_dropout_ratio, 0.0), "eps": layer_norm_eps,
            "pre_layer_norm": pre_or_postLayerNorm, "attn_dropout_checkpoint": attn_dropout_checkpoint,
            "normalize_invertible": normalize_invertible, "gelu_checkpoint": gelu_checkpoint,
            "stochastic_mode": stochastic_mode, "gelu_approximate": "tanh",
        }, Seeds(seed + layer_id if seed >= 0 else -1)
        return 0

    def _layer(self, dtype, layer_id, tensor):
        if (layer_id, dtype) not in self._layers:
            raise ValueError(f"[transformer] unknown layer; got {layer_id}, want one of "
                             f"{[number for number, kind in self._layers if kind == dtype]}; call "
                             "create_transformer_layer first")
        if tensor.dtype != dtype:
            raise ValueError(f"[transformer] wrong tensor dtype; got {tensor.dtype}, want {dtype}")
        return self._layers[layer_id, dtype]

    def _forward(self, dtype, layer_id, input, input_mask, attn_qkvw, attn_qkvb, attn_ow, attn_ob, attn_nw, attn_nb, inter_w, inter_b,
                 output_w, output_b, norm_w, norm_b, training_mode, prelayernorm, attn_dropout_checkpoint, normalize_invertible,
                 gelu_checkpoint):
        """Return the 17 tensors that DeepSpeed's function passes to the backward pass.

        Their contents differ from DeepSpeed's: `attn_prob_dropout_mask` holds the seed, and the
        norms' `var` holds (mean, 1 / deviation) per token.
        """
        parameters = (attn_qkvw, attn_qkvb, attn_ow, attn_ob, attn_nw, attn_nb, inter_w, inter_b, output_w, output_b, norm_w, norm_b)
        options, seeds = self._layer(dtype, layer_id, input)
        options.update(pre_layer_norm=prelayernorm, attn_dropout_checkpoint=attn_dropout_checkpoint,
                       normalize_invertible=normalize_invertible, gelu_checkpoint=gelu_checkpoint)
        given = dict(options, seed=seeds.next())
        if not training_mode:
            given.update(attn_dropout=0.0, hidden_dropout=0.0)
        with torch.no_grad():
            (output, inp_norm, qkv, stats, attn_out, add_res, ff1_inp, gelu_inp, ff2_inp, attn_norm_stats,
             norm_stats) = self._op("_forward")(input, input_mask, *parameters, **given, keep=training_mode)
        if inp_norm.numel() == input.numel():
            inp_norm = inp_norm.view(input.shape)
        none = input.new_empty(0)
        return [output, inp_norm, qkv, stats, stats, attn_out, add_res, ff1_inp, gelu_inp,
                gelu_inp if gelu_checkpoint else ff2_inp, torch.tensor([given["seed"]]), none, none, attn_norm_stats, none,
                norm_stats, none]

    def _backward(self, dtype, layer_id, grad_output, output, inp_norm, qkv_tf, soft_out, ctx_bufB, attn_o_inp,
                  add_res, ff1_inp, gelu_inp, ff2_inp, attn_prob_dropout_mask, attn_output_dropout_mask,
                  layer_output_dropout_mask, attn_layer_norm_var, attn_layer_norm_mean, layer_norm_var,
                  layer_norm_mean, input, input_mask, attn_qkvw, attn_qkvb, attn_ow, attn_ob, attn_nw, attn_nb, inter_w, inter_b,
                  output_w, output_b, norm_w, norm_b):
        """Return the gradients of the input and the 12 parameters."""
        parameters = (attn_qkvw, attn_qkvb, attn_ow, attn_ob, attn_nw, attn_nb, inter_w, inter_b, output_w, output_b, norm_w, norm_b)
        options, _ = self._layer(dtype, layer_id, grad_output)
        shape = grad_output.shape
        with torch.no_grad():
            return list(self._op("_backward")(
                grad_output, input.view(shape), input_mask, *parameters, **options, seed=int(attn_prob_dropout_mask),
                output=output, inp_norm=inp_norm.view(-1, shape[-1]), qkv=qkv_tf, attn_stats=soft_out,
                attn_out=attn_o_inp, add_res=add_res, ff1_inp=ff1_inp, gelu_inp=gelu_inp, ff2_inp=ff2_inp,
                attn_norm_stats=attn_layer_norm_var, norm_stats=layer_norm_var))
