"""Fixes that let DeepSpeed's injected inference layers (0.19.8) work in transformers 5 models.

transformers 5 passes a cache to each layer, and most models expect a single tensor as the result.
DeepSpeed's layers support neither. They treat the cache as a mask, and keep keys and values in
their own workspace. The model does not know about the workspace, so its positions and masks would
start from 0 again for each token.
"""

import functools
import inspect

import torch

from ..errors import make_error


def mend_containers(base):
    """Patch DeepSpeed's module `module_inject.containers.base`, right after it is executed."""
    container = base.BaseTransformerContainer
    create = container.create_ds_model_config

    @functools.wraps(create)
    def create_ds_model_config(self):
        layer = self.policy.client_module
        _give_sizes(getattr(layer, "attention", None))
        _refuse_shared_keys(layer)
        config = create(self)
        if _gives_one_tensor(type(layer)):
            config.return_tuple = config.return_single_tuple = False
        # DistilBERT's policy records that its norms come after the residual additions, but does not
        # pass this to the configuration.
        config.pre_layer_norm = getattr(self.policy, "preln", config.pre_layer_norm)
        return config

    container.create_ds_model_config = create_ds_model_config


def mend(ds_transformer):
    """Patch DeepSpeed's module `ds_transformer`, right after it is executed."""
    layer_class = ds_transformer.DeepSpeedTransformerInference
    forward = layer_class.forward

    @functools.wraps(forward)
    def with_cache(self, *args, **kwargs):
        caches = [each for each in (*args, *kwargs.values()) if _is_cache(each)]
        if not caches:
            return forward(self, *args, **kwargs)
        cache, layer = caches[0], self.config.layer_id
        tokens = (args[0] if args else kwargs.get("hidden_states", kwargs.get("input"))).shape[1]
        past = cache.get_seq_length()
        if layer == 0 and past == 0:
            # Otherwise, a one-token prompt would continue the previous sequence.
            self.workspace.reset_cache()
        if layer == 0 and past > 0 and tokens > 1:
            raise make_error("unsupported", "anyaccel.deepspeed", "DeepSpeed's injected layers cannot append more than one token to a sequence",
                             f"{tokens} tokens after {past}", "one token, or a new prompt")
        args = [None if _is_cache(each) else each for each in args]
        kwargs = {name: each for name, each in kwargs.items() if not _is_cache(each)}
        out = forward(self, *args, **dict(kwargs, use_cache=False))
        if self.layer_past is not None:
            _tell(cache, layer, *self.layer_past)
        return out

    layer_class.forward = with_cache


def _give_sizes(attention):
    """Set the sizes that DeepSpeed's policy reads from GPT-NeoX's attention module.

    Only older versions of transformers set these sizes.
    """
    config = getattr(attention, "config", None)
    for name in ("hidden_size", "num_attention_heads"):
        if config is not None and not hasattr(attention, name) and hasattr(config, name):
            setattr(attention, name, getattr(config, name))


def _refuse_shared_keys(layer):
    """Raise `unsupported` if the layer uses grouped-query attention, because DeepSpeed assumes that
    the query, key and value matrices have equal sizes and would fail later.
    """
    attention = getattr(layer, "self_attn", None)
    sizes = [len(part.weight) for part in (getattr(attention, name, None) for name in ("q_proj", "k_proj")) if hasattr(part, "weight")]
    if len(set(sizes)) > 1:
        raise make_error("unsupported", "anyaccel.deepspeed", f"DeepSpeed cannot inject {type(layer).__name__} layers with grouped-query attention",
                         f"{sizes[0]} query rows and {sizes[1]} key rows", "equal numbers of rows", "set replace_with_kernel_inject=False")


def _gives_one_tensor(layer_class):
    if layer_class.__name__ == "GPTNeoXLayer":  # its forward() has no return annotation
        return True
    try:
        return inspect.signature(layer_class.forward).return_annotation in (torch.Tensor, "torch.Tensor")
    except (TypeError, ValueError):
        return False


def _is_cache(given):
    return hasattr(given, "get_seq_length") and hasattr(given, "layers")


def _tell(cache, layer, keys, values):
    """Make the model's cache refer to the op's memory, without copying."""
    cache.update(keys[:, :, :0], values[:, :, :0], layer)
    held = cache.layers[layer]
    if held.keys.shape[2] == 0 or held.keys.shape[2] < keys.shape[2]:
        held.keys, held.values = keys, values
