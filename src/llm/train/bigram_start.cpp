#include "llm/train/bigram_start.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace anyaccel::llm {

namespace {

/// Maximum number of tokens to count. More tokens barely improve the bigram estimates.
constexpr std::size_t kMaxTokens = std::size_t{1} << 25;
/// Randomized decomposition: number of columns beyond the required rank, and number of passes over
/// the matrix.
constexpr std::int64_t kOversampling = 8;
constexpr int kPasses = 2;
/// Root mean square of the embedding.
constexpr double kEmbedding = 0.5;
/// Component of the embedding that is the same for all tokens. The head uses it to add the
/// frequency of each token.
constexpr double kConstant = 2.0;

/// A sparse float matrix in CSR format.
struct Sparse {
  std::int64_t columns;
  std::vector<std::size_t> begins;  ///< index at which each row begins, and the end of the last row
  std::vector<std::uint16_t> places;  ///< column of each value
  std::vector<float> values;

  std::int64_t rows() const { return static_cast<std::int64_t>(begins.size()) - 1; }

  /// Matrix product with a dense float matrix.
  at::Tensor operator*(const at::Tensor& dense) const {
    const at::Tensor in = dense.contiguous();
    at::Tensor out = at::zeros({rows(), in.size(1)});
    const auto width = static_cast<std::size_t>(in.size(1));
    const float* source = in.const_data_ptr<float>();
    float* target = out.mutable_data_ptr<float>();
    at::parallel_for(0, rows(), 64, [&](std::int64_t first, std::int64_t last) {
      for (auto row = static_cast<std::size_t>(first); row < static_cast<std::size_t>(last);
           ++row) {
        for (std::size_t i = begins[row]; i < begins[row + 1]; ++i) {
          for (std::size_t c = 0; c < width; ++c)
            target[row * width + c] += values[i] * source[places[i] * width + c];
        }
      }
    });
    return out;
  }

  Sparse transposed() const {
    Sparse out{.columns = rows(),
               .begins = std::vector<std::size_t>(static_cast<std::size_t>(columns) + 1),
               .places = {},
               .values = {}};
    for (const std::uint16_t column : places) ++out.begins[column + std::size_t{1}];
    for (std::size_t i = 1; i < out.begins.size(); ++i) out.begins[i] += out.begins[i - 1];
    out.places.resize(places.size());
    out.values.resize(places.size());
    auto next = out.begins;
    for (std::size_t row = 0; row + 1 < begins.size(); ++row) {
      for (std::size_t i = begins[row]; i < begins[row + 1]; ++i) {
        const std::size_t to = next[places[i]]++;
        out.places[to] = static_cast<std::uint16_t>(row);
        out.values[to] = values[i];
      }
    }
    return out;
  }
};

/// Bigram probabilities: P(b | a) = share[b] * exp(ratio[a, b]), up to a factor that depends on a.
/// With Witten-Bell smoothing, the ratio is 0 for pairs that do not occur, so the matrix is sparse.
struct Bigrams {
  std::vector<double> share;
  Sparse ratio;
};

Bigrams count_bigrams(std::span<const std::uint16_t> tokens, std::size_t vocabulary) {
  std::vector<std::uint32_t> pairs;
  Bigrams out{.share = std::vector<double>(vocabulary, 0.5),
              .ratio = {.columns = static_cast<std::int64_t>(vocabulary),
                        .begins = {0},
                        .places = {},
                        .values = {}}};
  for (const std::uint16_t token : tokens) out.share[token] += 1;
  const double total = static_cast<double>(tokens.size()) + 0.5 * static_cast<double>(vocabulary);
  for (double& share : out.share) share /= total;
  for (std::size_t i = 1; i < tokens.size(); ++i)
    pairs.push_back(static_cast<std::uint32_t>(tokens[i - 1]) << 16 | tokens[i]);
  std::sort(pairs.begin(), pairs.end());
  Sparse& ratio = out.ratio;
  auto pair = pairs.begin();
  for (std::size_t row = 0; row < vocabulary; ++row) {
    while (pair != pairs.end() && *pair >> 16 == row) {
      const auto end =
          std::find_if(pair, pairs.end(), [&](std::uint32_t other) { return other != *pair; });
      ratio.places.push_back(static_cast<std::uint16_t>(*pair & 0xffff));
      ratio.values.push_back(static_cast<float>(end - pair));
      pair = end;
    }
    const std::size_t begin = ratio.begins.back();
    ratio.begins.push_back(ratio.places.size());
    const auto kinds = static_cast<double>(ratio.places.size() - begin);
    for (std::size_t i = begin; i < ratio.places.size(); ++i)
      ratio.values[i] =
          static_cast<float>(std::log1p(ratio.values[i] / (kinds * out.share[ratio.places[i]])));
  }
  return out;
}

/// Returns two factors [vocabulary, rank] whose product approximates the ratios, most accurately
/// for frequent tokens. Halko, Martinsson and Tropp, "Finding Structure with Randomness", SIAM
/// Review 53(2), 2011.
std::pair<at::Tensor, at::Tensor> factors(const Bigrams& bigrams, std::int64_t rank,
                                          HostRandom& random) {
  const std::size_t vocabulary = bigrams.share.size();
  at::Tensor weight = at::empty({static_cast<std::int64_t>(vocabulary), 1});
  float* weights = weight.mutable_data_ptr<float>();
  for (std::size_t i = 0; i < vocabulary; ++i)
    weights[i] = static_cast<float>(std::sqrt(bigrams.share[i] * static_cast<double>(vocabulary)));
  Sparse matrix = bigrams.ratio;
  for (std::size_t row = 0; row < vocabulary; ++row) {
    for (std::size_t i = matrix.begins[row]; i < matrix.begins[row + 1]; ++i)
      matrix.values[i] *= weights[row] * weights[matrix.places[i]];
  }
  const Sparse transposed = matrix.transposed();
  const auto orthogonal = [](const at::Tensor& in) { return std::get<0>(at::linalg_qr(in)); };
  at::Tensor probe = at::empty({matrix.columns, std::min(rank + kOversampling, matrix.columns)});
  random.fill_normal(probe, 0.0, 1.0);
  at::Tensor basis = orthogonal(matrix * probe);
  for (int i = 0; i < kPasses; ++i) basis = orthogonal(matrix * orthogonal(transposed * basis));
  const auto [left, sizes, right] =
      at::linalg_svd((transposed * basis).t(), /*full_matrices=*/false);
  const at::Tensor root = sizes.narrow(0, 0, rank).sqrt();
  return {at::matmul(basis, left.narrow(1, 0, rank)).mul(root).div(weight),
          right.narrow(0, 0, rank).t().mul(root).div(weight)};
}

at::Tensor random_rotation(std::int64_t size, HostRandom& random) {
  at::Tensor out = at::empty({size, size});
  random.fill_normal(out, 0.0, 1.0);
  return std::get<0>(at::linalg_qr(out));
}

}  // namespace

void start_from_bigrams(Weights& weights, const ModelConfig& config,
                        std::span<const std::uint16_t> tokens, HostRandom& random) {
  if (config.tie_word_embeddings || config.hidden_size < 4 || !at::hasLAPACK()) return;
  const c10::AutoGradMode no_gradient(false);
  const std::int64_t vocabulary = config.vocab_size;
  const std::int64_t width = config.hidden_size;
  const Bigrams bigrams = count_bigrams(tokens.subspan(0, std::min(tokens.size(), kMaxTokens)),
                                        static_cast<std::size_t>(vocabulary));
  const std::int64_t rank = std::min(width - 2, vocabulary);
  const auto [left, right] = factors(bigrams, rank, random);
  at::Tensor share = at::empty({vocabulary, 1});
  for (std::size_t i = 0; i < bigrams.share.size(); ++i)
    share.mutable_data_ptr<float>()[i] = static_cast<float>(std::log(bigrams.share[i]));

  // The norm before the head would remove the length of a token's row. An additional column, which
  // the head ignores, gives all rows the same length.
  const at::Tensor squares = left.square().sum(1, /*keepdim=*/true);
  const double longest = squares.max().item<double>();
  const double length = std::sqrt(longest + kConstant * kConstant);
  const at::Tensor filler = squares.neg().add(longest).clamp_min(0).sqrt();
  const at::Tensor rest = at::zeros({vocabulary, width - 2 - rank});
  const double per_value = std::sqrt(static_cast<double>(width)) / length;
  // Rotate the rows, so that the optimizer treats all columns in the same way.
  const at::Tensor rotation = random_rotation(width, random);
  const at::Tensor rows = at::cat({left, at::full({vocabulary, 1}, kConstant), filler, rest}, 1);
  const at::Tensor head =
      at::cat({right, share.sub(share.mean()).div(kConstant), at::zeros({vocabulary, 1}), rest}, 1);
  weights.embedding.copy_(at::matmul(rows, rotation).mul(kEmbedding * per_value));
  weights.head.copy_(at::matmul(head, rotation).div(per_value));
  for (LayerWeights& layer : weights.layers) {
    layer.output.zero_();
    layer.down.zero_();
  }
}

}  // namespace anyaccel::llm
