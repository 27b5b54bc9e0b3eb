// Runs the matrix products, integer formats and expert selection of a CUDA decoder pass on the
// host. Compares the results with a reference implementation in double precision or with the CPU
// kernels.
#include "kernels/decoder/integers.h"
#include "unit/kernels/decoder_cuda_case.h"
#include "unit/kernels/matrix_case.h"

namespace {

using namespace anyaccel::ops;
using namespace op_tests;

using MatrixFormat = anyaccel::ops::Format;

Products products_of(const Matrix& m, const float* x, std::int64_t rows, float* to) {
  return {m.format, m.inputs, m.group, 1,        {{m.weight, m.scales, m.zeros, {}, m.outputs}},
          x,        rows,     to,      m.outputs};
}

struct Shape {
  std::int64_t outputs, inputs, group;
};

// Fails if a product in any format is wrong, or its bits depend on the number of rows, the
// alignment of the matrix or the order of threads.
TEST(InferenceCuda, Products) {
  Random random(11);
  struct Kind {
    MatrixFormat format;
    bool zeros;
    std::vector<Shape> shapes;
  };
  const std::vector<Shape> plain = {{1, 1, 0},    {3, 7, 0},    {5, 24, 0}, {9, 70, 0},
                                    {6, 1024, 0}, {7, 2056, 0}, {0, 8, 0}};
  const std::vector<Shape> groups = {{1, 32, 32},   {5, 96, 32},    {3, 128, 64},
                                     {9, 1152, 64}, {6, 2304, 128}, {2, 192, 192}};
  for (const Kind& kind :
       {Kind{MatrixFormat::f32, false, plain}, Kind{MatrixFormat::bf16, false, plain},
        Kind{MatrixFormat::fp16, false, plain}, Kind{MatrixFormat::int8, false, groups},
        Kind{MatrixFormat::int4, false, groups}, Kind{MatrixFormat::int4, true, groups}})
    for (const Shape& shape : kind.shapes)
      for (const std::int64_t rows : {1, 2, 3, 8, 16}) {
        MatrixCase arguments(kind.format, shape.outputs, shape.inputs, shape.group, kind.zeros,
                             rows);
        std::vector<float> to(static_cast<std::size_t>(rows * shape.outputs + 1), 7);
        launches_backwards = rows % 2 == 0;
        cuda_products(products_of(arguments.matrix, arguments.x.data(), rows, to.data()), nullptr);
        EXPECT_EQ(to.back(), 7);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t o = 0; o < shape.outputs; ++o)
            ASSERT_NEAR(to[static_cast<std::size_t>(r * shape.outputs + o)], arguments.sum(r, o),
                        arguments.bound(r, o))
                << static_cast<int>(kind.format) << " " << shape.outputs << " x " << shape.inputs
                << " row " << r;
        // Compute each row alone, with quantized weights at an odd address, which selects the
        // kernel without vector loads.
        std::vector<std::uint8_t> moved(arguments.weight.size() + 1);
        std::copy(arguments.weight.begin(), arguments.weight.end(), moved.begin() + 1);
        Matrix odd = arguments.matrix;
        if (shape.group) odd.weight = moved.data() + 1;
        launches_backwards = !launches_backwards;
        for (std::int64_t r = 0; r < rows; ++r) {
          std::vector<float> alone(static_cast<std::size_t>(shape.outputs));
          cuda_products(products_of(odd, arguments.x.data() + r * shape.inputs, 1, alone.data()),
                        nullptr);
          for (std::int64_t o = 0; o < shape.outputs; ++o)
            ASSERT_EQ(alone[static_cast<std::size_t>(o)],
                      to[static_cast<std::size_t>(r * shape.outputs + o)]);
        }
      }
}

// Fails if the outputs of one part of a fused product are stored in the place of another part, or a
// part uses the wrong bias.
TEST(InferenceCuda, ProductsOfParts) {
  Random random(12);
  constexpr std::int64_t rows = 3, inputs = 40, counts[] = {5, 1, 8}, all = 14;
  std::vector<MatrixCase> parts;
  for (const std::int64_t outputs : counts)
    parts.emplace_back(MatrixFormat::bf16, outputs, inputs, 0, false, rows);
  Array bias = drawn(random, Element::fp16, 5), other = drawn(random, Element::f32, 8);
  std::vector<float> to(rows * all);
  Products launch{MatrixFormat::bf16, inputs, 0, 3, {}, parts[0].x.data(), rows, to.data(), all};
  const Values biases[] = {values_of(bias), {}, values_of(other)};
  for (std::size_t p = 0; p < 3; ++p)
    launch.part[p] = {parts[p].matrix.weight, nullptr, nullptr, biases[p], parts[p].matrix.outputs};
  cuda_products(launch, nullptr);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t o = 0; o < all; ++o) {
      const std::size_t p = o < 5 ? 0 : o < 6 ? 1 : 2;
      const std::int64_t output = o - (p == 0 ? 0 : p == 1 ? 5 : 6);
      double want = p == 0 ? bias.get(output) : p == 2 ? other.get(output) : 0;
      for (std::int64_t i = 0; i < inputs; ++i)
        want += double{parts[0].x[static_cast<std::size_t>(r * inputs + i)]} *
                parts[p].values[static_cast<std::size_t>(output * inputs + i)];
      EXPECT_NEAR(to[static_cast<std::size_t>(r * all + o)], want, 1e-3) << r << " " << o;
    }
}

// Fails if quantized integers or dequantized floats differ from those of the CPU.
TEST(InferenceCuda, IntegersMatchTheCpu) {
  Random random(17);
  for (int i = 0; i < 40; ++i) {
    const std::int64_t group = 32 * random.whole(1, 5), inputs = group * random.whole(1, 3),
                       outputs = random.whole(0, 4);
    const int bits = random.once_in(2) ? 8 : 4;
    Array from = drawn(random, random.element(), outputs * inputs);
    // Make large values rare, so that clipping them reduces the error.
    for (std::int64_t k = 0; k < from.size(); ++k) from.set(k, std::pow(from.get(k), 3));
    if (random.once_in(3))
      for (std::int64_t k = 0; k < std::min(group, from.size()); ++k) from.set(k, 0);
    std::vector<float> scales(static_cast<std::size_t>(outputs * inputs / group)),
        wanted_scales = scales, scratch(static_cast<std::size_t>(inputs));
    Bytes<std::int8_t> made(outputs * inputs * bits / 8, 0), wanted(outputs * inputs * bits / 8, 0);
    launches_backwards = random.once_in(2);
    cuda_quantize_matrix(
        {from.data(), from.element(), bits, outputs, inputs, group, made.data(), scales.data()},
        nullptr);
    for (std::int64_t row = 0; row < outputs; ++row)
      quantize_row(Isa::scalar, bits, group, from.element(),
                   static_cast<char*>(from.data()) + row * inputs * size_of(from.element()), inputs,
                   wanted.data() + row * inputs * bits / 8,
                   wanted_scales.data() + row * (inputs / group), scratch.data());
    EXPECT_EQ(scales, wanted_scales);
    EXPECT_EQ(made.values(), wanted.values());
    EXPECT_TRUE(made.guards_whole());
    std::vector<std::uint8_t> zeros(scales.size());
    for (std::uint8_t& zero : zeros) zero = static_cast<std::uint8_t>(random.whole(0, 15));
    const Matrix m{bits == 8 ? MatrixFormat::int8 : MatrixFormat::int4,
                   outputs,
                   inputs,
                   group,
                   made.data(),
                   scales.data(),
                   bits == 4 && random.once_in(2) ? zeros.data() : nullptr};
    const std::int64_t begin = random.whole(0, outputs);
    Array ours(random.element(), (outputs - begin) * inputs, 0),
        theirs(ours.element(), ours.size(), 0);
    cuda_widen_matrix({m, begin, outputs - begin, ours.element(), ours.data()}, nullptr);
    widen_rows(Isa::scalar, m, begin, outputs, theirs.element(), theirs.data());
    expect_same(ours, theirs, "widened");
  }
}

// Fails if the wrong experts are chosen, or their weights are not a softmax of the logits. Ties go
// to the first expert, and the chosen experts are sorted by index.
TEST(InferenceCuda, ChoosesExperts) {
  const float logits[] = {1, 3, 3, -2, /**/ 0, 0, 0, 5};
  Chosen chosen[4];
  cuda_choose_experts({logits, 2, 4, 2, true, chosen}, nullptr);
  EXPECT_EQ(chosen[0].expert, 1);
  EXPECT_EQ(chosen[1].expert, 2);
  EXPECT_EQ(chosen[2].expert, 0);
  EXPECT_EQ(chosen[3].expert, 3);
  EXPECT_FLOAT_EQ(chosen[0].share, 0.5F);
  EXPECT_NEAR(chosen[3].share, 1 / (1 + std::exp(-5.0)), 1e-6);
  cuda_choose_experts({logits, 1, 4, 1, false, chosen}, nullptr);
  EXPECT_NEAR(chosen[0].share, std::exp(3.0) / (std::exp(1.0) + 2 * std::exp(3.0) + std::exp(-2.0)),
              1e-6);
}

}  // namespace
