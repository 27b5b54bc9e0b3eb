// Softmax (log-softmax with LOG) of rows of `length` elements that are `inner` apart. One work-group
// of 64 per row.
inline float group_max(__local float* parts, float value) {
  const uint lane = get_local_id(0);
  barrier(CLK_LOCAL_MEM_FENCE);
  parts[lane] = value;
  for (uint step = 32; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) parts[lane] = fmax(parts[lane], parts[lane + step]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return parts[0];
}

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

__kernel void softmax(int length, int inner, __global const TYPE(T)* in, __global TYPE(T)* out) {
  __local float parts[64];
  const uint row = get_group_id(0), lane = get_local_id(0);
  const uint base = row / inner * length * inner + row % inner;
  float largest = -INFINITY;
  for (uint i = lane; i < length; i += 64) largest = fmax(largest, LOAD(T, in, base + i * inner));
  largest = group_max(parts, largest);
  float sum = 0;
  for (uint i = lane; i < length; i += 64) sum += exp(LOAD(T, in, base + i * inner) - largest);
  sum = group_sum(parts, sum);
#ifdef LOG
  const float shift = largest + log(sum);
  for (uint i = lane; i < length; i += 64)
    STORE(T, out, base + i * inner, LOAD(T, in, base + i * inner) - shift);
#else
  const float scale = 1.0f / sum;
  for (uint i = lane; i < length; i += 64)
    STORE(T, out, base + i * inner, exp(LOAD(T, in, base + i * inner) - largest) * scale);
#endif
}

__kernel void softmax_backward(int length, int inner, __global const TYPE(T)* gradient,
                               __global const TYPE(T)* output, __global TYPE(T)* out) {
  __local float parts[64];
  const uint row = get_group_id(0), lane = get_local_id(0);
  const uint base = row / inner * length * inner + row % inner;
  float sum = 0;
  for (uint i = lane; i < length; i += 64) {
#ifdef LOG
    sum += LOAD(T, gradient, base + i * inner);
#else
    sum += LOAD(T, gradient, base + i * inner) * LOAD(T, output, base + i * inner);
#endif
  }
  sum = group_sum(parts, sum);
  for (uint i = lane; i < length; i += 64) {
    const float of = LOAD(T, gradient, base + i * inner), y = LOAD(T, output, base + i * inner);
#ifdef LOG
    STORE(T, out, base + i * inner, of - exp(y) * sum);
#else
    STORE(T, out, base + i * inner, (of - sum) * y);
#endif
  }
}
