#define ANYACCEL_TRANSFORMER_NAME "transformer_layer"
#include "ops/transformer/schema_cuda.h"
