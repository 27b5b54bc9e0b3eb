#define ANYACCEL_TRANSFORMER_NAME "stochastic_transformer_layer"
#include "ops/support/transformer/register_cuda.h"
