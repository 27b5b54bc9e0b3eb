// Layer normalization in float32: one work-group of 64 per row. The gradients of the weights use one
// work-item per column.
inline float group_sum(__local float* parts, float value) {
  const uint lane = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  parts[lane] = value;
  for (uint step = 32; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) parts[lane] += parts[lane + step];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return parts[0];
}

__kernel void layer_norm(int length, int has_weight, int has_bias, float eps,
                         __global const float* in, __global const float* weight,
                         __global const float* bias, __global float* out, __global float* means,
                         __global float* rstds) {
  __local float parts[64];
  const uint row = get_group_id(0), lane = get_local_id(0);
  in += (size_t)row * length;
  out += (size_t)row * length;
  float sum = 0;
  for (uint i = lane; i < length; i += 64) sum += in[i];
  const float mean = group_sum(parts, sum) / length;
  float squares = 0;
  for (uint i = lane; i < length; i += 64) squares += (in[i] - mean) * (in[i] - mean);
  const float rstd = 1.0f / sqrt(group_sum(parts, squares) / length + eps);
  for (uint i = lane; i < length; i += 64)
    out[i] = (in[i] - mean) * rstd * (has_weight ? weight[i] : 1.0f) + (has_bias ? bias[i] : 0.0f);
  if (lane == 0) {
    means[row] = mean;
    rstds[row] = rstd;
  }
}

__kernel void layer_norm_backward(int length, int has_weight, __global const float* gradient,
                                  __global const float* in, __global const float* weight,
                                  __global const float* means, __global const float* rstds,
                                  __global float* out) {
  __local float parts[64];
  const uint row = get_group_id(0), lane = get_local_id(0);
  gradient += (size_t)row * length;
  in += (size_t)row * length;
  out += (size_t)row * length;
  const float mean = means[row], rstd = rstds[row];
  float sum = 0, product = 0;
  for (uint i = lane; i < length; i += 64) {
    const float g = gradient[i] * (has_weight ? weight[i] : 1.0f);
    sum += g;
    product += g * (in[i] - mean) * rstd;
  }
  sum = group_sum(parts, sum) / length;
  product = group_sum(parts, product) / length;
  for (uint i = lane; i < length; i += 64) {
    const float g = gradient[i] * (has_weight ? weight[i] : 1.0f);
    out[i] = rstd * (g - sum - (in[i] - mean) * rstd * product);
  }
}

__kernel void layer_norm_backward_weight(int rows, int length, __global const float* gradient,
                                         __global const float* in, __global const float* means,
                                         __global const float* rstds, __global float* grad_weight,
                                         __global float* grad_bias) {
  const uint column = get_global_id(0);
  if (column >= length) return;
  float weight = 0, bias = 0;
  for (int row = 0; row < rows; ++row) {
    const float g = gradient[(size_t)row * length + column];
    bias += g;
    weight += g * (in[(size_t)row * length + column] - means[row]) * rstds[row];
  }
  grad_weight[column] = weight;
  grad_bias[column] = bias;
}
