// Rows by index, the cross-entropy loss, triangular masks. T is the dtype.

// Copies row index[i] of `table` to row i. A kernel cannot throw: it sets `failure`, which the host
// checks when it waits for the device, and writes zeros.
__kernel void gather_rows(int rows, int width, int count, __global const TYPE(T)* table,
                          __global const long* index, __global TYPE(T)* out,
                          __global int* failure) {
  const int x = get_global_id(0), i = get_global_id(1);
  if (x >= width || i >= count) return;
  const long row = index[i];
  const bool good = row >= 0 && row < rows;
  if (!good) *failure = 1;
  out[(size_t)i * width + x] = good ? table[(size_t)row * width + x] : (TYPE(T))0;
}

// Adds row i of `gradient` to row index[i] of `out`. One work-item per column. The forward pass has
// reported indices out of range; here they are ignored.
__kernel void add_rows(int rows, int width, int count, long padding, __global const float* gradient,
                       __global const long* index, __global float* out) {
  const int x = get_global_id(0);
  if (x >= width) return;
  for (int i = 0; i < count; ++i)
    if (index[i] != padding && index[i] >= 0 && index[i] < rows)
      out[(size_t)index[i] * width + x] += gradient[(size_t)i * width + x];
}

// One work-group of 64.
__kernel void nll_loss(int rows, int classes, long ignored, int mean, __global const float* in,
                       __global const long* target, __global float* out, __global float* total,
                       __global int* failure) {
  __local float sums[64];
  __local float counts[64];
  const uint lane = get_local_id(0);
  float sum = 0, count = 0;
  for (int row = lane; row < rows; row += 64)
    if (target[row] != ignored && (target[row] < 0 || target[row] >= classes)) {
      *failure = 2;
    } else if (target[row] != ignored) {
      sum -= in[(size_t)row * classes + target[row]];
      count += 1;
    }
  sums[lane] = sum;
  counts[lane] = count;
  for (uint step = 32; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step) {
      sums[lane] += sums[lane + step];
      counts[lane] += counts[lane + step];
    }
  }
  if (lane == 0) {
    out[0] = mean ? sums[0] / counts[0] : sums[0];
    total[0] = counts[0];
  }
}

__kernel void nll_loss_backward(int rows, int classes, long ignored, int mean,
                                __global const float* gradient, __global const long* target,
                                __global const float* total, __global float* out) {
  const int row = get_global_id(0);
  if (row >= rows || target[row] == ignored) return;
  if (target[row] < 0 || target[row] >= classes) return;  // nll_loss has reported it
  out[(size_t)row * classes + target[row]] = -gradient[0] / (mean ? total[0] : 1.0f);
}

__kernel void triangle(int rows, int columns, uint count, int diagonal, int lower,
                       __global const TYPE(T)* in, __global TYPE(T)* out) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const int column = i % columns, row = i / columns % rows;
  const bool keep = lower ? column - row <= diagonal : column - row >= diagonal;
  out[i] = keep ? in[i] : (TYPE(T))0;
}
