#define ANYACCEL_TRANSFORMER_NAME "stochastic_transformer_layer"
#include "ops/transformer/schema_cuda.h"
