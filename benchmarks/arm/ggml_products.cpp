// Multiplies rows by a matrix with ggml's CPU backend, as products.cpp does with our kernels.
//
//   ggml_products <plain or repack> <format> <rows> <outputs> <inputs> <repeats>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"

// ggml exports no C function that returns this buffer type.
ggml_backend_buffer_type_t ggml_backend_cpu_repack_buffer_type(void);

int main(int count, char** arguments) {
  if (count < 7) {
    std::fprintf(stderr, "ggml_products: expected 6 arguments, got %d\n", count - 1);
    return 2;
  }
  const std::string format = arguments[2];
  const auto number = [&](int i) { return std::int64_t{std::atoll(arguments[i])}; };
  const std::int64_t rows = number(3), outputs = number(4), inputs = number(5);
  const ggml_type type = format == "int8"   ? GGML_TYPE_Q8_0
                         : format == "int4" ? GGML_TYPE_Q4_0
                         : format == "bf16" ? GGML_TYPE_BF16
                                            : GGML_TYPE_F32;
  ggml_backend_t backend = ggml_backend_cpu_init();
  ggml_backend_cpu_set_n_threads(backend, 1);
  ggml_context* weights = ggml_init({1 << 20, nullptr, true});
  ggml_context* others = ggml_init({1 << 20, nullptr, true});
  ggml_tensor* w = ggml_new_tensor_2d(weights, type, inputs, outputs);
  const auto plain = ggml_backend_get_default_buffer_type(backend);
  const auto kind =
      std::strcmp(arguments[1], "repack") == 0 ? ggml_backend_cpu_repack_buffer_type() : plain;
  ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(weights, kind);
  ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  ggml_tensor* x = ggml_new_tensor_2d(others, GGML_TYPE_F32, inputs, rows);
  ggml_tensor* product = ggml_mul_mat(others, w, x);
  if (!ggml_backend_dev_supports_op(ggml_backend_get_device(backend), product)) {
    std::fprintf(stderr, "ggml_products: unsupported\n");
    return 3;
  }
  ggml_cgraph* graph = ggml_new_graph(others);
  ggml_build_forward_expand(graph, product);
  ggml_backend_alloc_ctx_tensors_from_buft(others, plain);
  std::vector<float> values(static_cast<std::size_t>(inputs * (outputs > rows ? outputs : rows)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 17) / 16 - 0.5F;
  std::vector<char> codes(ggml_nbytes(w));
  if (type == GGML_TYPE_F32)
    std::memcpy(codes.data(), values.data(), codes.size());
  else
    ggml_quantize_chunk(type, values.data(), codes.data(), 0, outputs, inputs, nullptr);
  ggml_backend_tensor_set(w, codes.data(), 0, codes.size());
  ggml_backend_tensor_set(x, values.data(), 0, ggml_nbytes(x));
  for (std::int64_t i = number(6); i; --i)
    if (ggml_backend_graph_compute(backend, graph) != GGML_STATUS_SUCCESS) return 1;
  float first;
  ggml_backend_tensor_get(product, &first, 0, 4);
  std::printf("%g\n", static_cast<double>(first));
  return 0;
}
