// reduce: one work-group of 64 per result. IN and OUT are dtypes, C is the type of the computation,
// KIND_SUM, KIND_MEAN, KIND_NORM (the Euclidean norm) or KIND_ALL selects the operation.
typedef struct {
  uint results, terms, kept_dims, reduced_dims;
  uint kept_sizes[8], reduced_sizes[8];
  int kept_strides[8], reduced_strides[8];
} Shape;

#if defined(KIND_ALL)
#define FIRST 1
#define JOIN_TERMS(a, b) ((a) != 0 && (b) != 0)
#else
#define FIRST 0
#define JOIN_TERMS(a, b) ((a) + (b))
#endif

__kernel void reduce(Shape s, __global const TYPE(IN)* in, __global TYPE(OUT)* out) {
  __local C parts[64];
  const uint result = get_group_id(0), lane = get_local_id(0);
  int base = 0;
  uint rest = result;
  for (uint d = 0; d < s.kept_dims; ++d) {
    base += (int)(rest % s.kept_sizes[d]) * s.kept_strides[d];
    rest /= s.kept_sizes[d];
  }
  C total = FIRST;
  for (uint term = lane; term < s.terms; term += 64) {
    int at = base;
    uint left = term;
    for (uint d = 0; d < s.reduced_dims; ++d) {
      at += (int)(left % s.reduced_sizes[d]) * s.reduced_strides[d];
      left /= s.reduced_sizes[d];
    }
    const C value = (C)LOAD(IN, in, at);
#if defined(KIND_NORM)
    total += value * value;
#else
    total = JOIN_TERMS(total, value);
#endif
  }
  parts[lane] = total;
  for (uint step = 32; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) parts[lane] = JOIN_TERMS(parts[lane], parts[lane + step]);
  }
  if (lane == 0) {
#if defined(KIND_NORM)
    const C value = sqrt(parts[0]);
#elif defined(KIND_MEAN)
    const C value = parts[0] / (C)s.terms;
#else
    const C value = parts[0];
#endif
    STORE(OUT, out, result, value);
  }
}
