#define ANYACCEL_TRANSFORMER_NAME "transformer_layer"
#include "ops/support/transformer/register_cuda.h"
