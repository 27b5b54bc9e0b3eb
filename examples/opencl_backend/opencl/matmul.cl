// out = beta * bias + alpha * a @ b for a batch of matrices of dtype T with any strides. `out` is
// contiguous. A work-group of 8 x 8 computes a tile of 32 x 32; each work-item computes 4 x 4 of it.
// The terms are added in float.
#define TILE 32
#define DEPTH 16

typedef struct {
  int rows, columns, inner;
  int a[3], b[3], bias[3];  // strides: batch, row, column
  float alpha, beta;
} Shape;

__kernel __attribute__((reqd_work_group_size(8, 8, 1))) void matmul(
    Shape s, __global const TYPE(T)* a, __global const TYPE(T)* b, __global const TYPE(T)* bias,
    __global TYPE(T)* out) {
  __local float a_tile[DEPTH][TILE];
  __local float b_tile[DEPTH][TILE];
  const int x = get_local_id(0), y = get_local_id(1), lane = y * 8 + x;
  const int first_row = get_group_id(1) * TILE, first_column = get_group_id(0) * TILE;
  const size_t batch = get_group_id(2);
  a += batch * s.a[0];
  b += batch * s.b[0];
  bias += batch * s.bias[0];
  out += batch * s.rows * s.columns;
  float4 sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
  for (int start = 0; start < s.inner; start += DEPTH) {
    for (int i = lane; i < TILE * DEPTH; i += 64) {
      // Neighboring work-items read along the dimension whose elements are next to each other.
      const int a_row = s.a[2] == 1 ? i / DEPTH : i % TILE;
      const int a_depth = s.a[2] == 1 ? i % DEPTH : i / TILE;
      const int row = first_row + a_row, a_inner = start + a_depth;
      a_tile[a_depth][a_row] =
          row < s.rows && a_inner < s.inner ? LOAD(T, a, row * s.a[1] + a_inner * s.a[2]) : 0.0f;
      const int b_column = s.b[2] == 1 ? i % TILE : i / DEPTH;
      const int b_depth = s.b[2] == 1 ? i / TILE : i % DEPTH;
      const int column = first_column + b_column, b_inner = start + b_depth;
      b_tile[b_depth][b_column] = column < s.columns && b_inner < s.inner
                                      ? LOAD(T, b, b_inner * s.b[1] + column * s.b[2])
                                      : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < DEPTH; ++k) {
      const float4 b_part = vload4(x, b_tile[k]);
      const float4 a_part = vload4(y, a_tile[k]);
      sum0 += a_part.x * b_part;
      sum1 += a_part.y * b_part;
      sum2 += a_part.z * b_part;
      sum3 += a_part.w * b_part;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float sums[4][4];
  vstore4(sum0, 0, sums[0]);
  vstore4(sum1, 0, sums[1]);
  vstore4(sum2, 0, sums[2]);
  vstore4(sum3, 0, sums[3]);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = first_row + y * 4 + i, column = first_column + x * 4 + j;
      if (row >= s.rows || column >= s.columns) continue;
      float value = s.alpha * sums[i][j];
      if (s.beta != 0.0f)
        value += s.beta * LOAD(T, bias, row * s.bias[1] + column * s.bias[2]);
      STORE(T, out, row * s.columns + column, value);
    }
}
