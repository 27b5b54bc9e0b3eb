// out = beta * bias + alpha * a @ b for a batch of matrices of dtype T with any strides. `out` is
// contiguous. A work-group of 16 x 4 computes a tile of 32 x 32. Each work-item computes 8 x 2 of
// it, such that neighboring work-items use neighboring columns. The terms are added in float.
#define TILE 32
#define DEPTH 16
#define ROWS 8

typedef struct {
  int rows, columns, inner;
  int a[3], b[3], bias[3];  // strides: batch, row, column
  float alpha, beta;
} Shape;

__kernel __attribute__((reqd_work_group_size(16, 4, 1))) void matmul(
    Shape s, __global const TYPE(T)* a, __global const TYPE(T)* b, __global const TYPE(T)* bias,
    __global TYPE(T)* out) {
  __local float a_tile[DEPTH][TILE];
  __local float b_tile[DEPTH][TILE];
  const int x = get_local_id(0), y = get_local_id(1), lane = y * 16 + x;
  const int first_row = get_group_id(1) * TILE, first_column = get_group_id(0) * TILE;
  const size_t batch = get_group_id(2);
  a += batch * s.a[0];
  b += batch * s.b[0];
  bias += batch * s.bias[0];
  out += batch * s.rows * s.columns;
  float left[ROWS], right[ROWS];
#pragma unroll
  for (int i = 0; i < ROWS; ++i) left[i] = right[i] = 0;
  // Neighboring work-items read along the dimension whose elements are next to each other.
  const int a_along = s.a[2] == 1, b_along = s.b[2] == 1;
  const int a_row = a_along ? lane / DEPTH : lane % TILE, a_row_step = a_along ? 64 / DEPTH : 0;
  const int a_depth = a_along ? lane % DEPTH : lane / TILE, a_depth_step = a_along ? 0 : 64 / TILE;
  const int b_column = b_along ? lane % TILE : lane / DEPTH, b_column_step = b_along ? 0 : 64 / DEPTH;
  const int b_depth = b_along ? lane / TILE : lane % DEPTH, b_depth_step = b_along ? 64 / TILE : 0;
  for (int start = 0; start < s.inner; start += DEPTH) {
#pragma unroll
    for (int i = 0; i < TILE * DEPTH / 64; ++i) {
      const int r = a_row + i * a_row_step, d = a_depth + i * a_depth_step;
      const int row = first_row + r, inner = start + d;
      a_tile[d][r] =
          row < s.rows && inner < s.inner ? LOAD(T, a, row * s.a[1] + inner * s.a[2]) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < TILE * DEPTH / 64; ++i) {
      const int c = b_column + i * b_column_step, d = b_depth + i * b_depth_step;
      const int column = first_column + c, inner = start + d;
      b_tile[d][c] = column < s.columns && inner < s.inner
                         ? LOAD(T, b, inner * s.b[1] + column * s.b[2])
                         : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
      const float b_left = b_tile[k][x], b_right = b_tile[k][x + 16];
#pragma unroll
      for (int i = 0; i < ROWS; ++i) {
        left[i] += a_tile[k][y * ROWS + i] * b_left;
        right[i] += a_tile[k][y * ROWS + i] * b_right;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
#pragma unroll
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < 2; ++j) {
      const int row = first_row + y * ROWS + i, column = first_column + x + 16 * j;
      if (row >= s.rows || column >= s.columns) continue;
      float value = s.alpha * (j ? right[i] : left[i]);
      if (s.beta != 0.0f)
        value += s.beta * LOAD(T, bias, row * s.bias[1] + column * s.bias[2]);
      STORE(T, out, row * s.columns + column, value);
    }
}
