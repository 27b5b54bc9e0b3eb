#include <ATen/ops/empty.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <system_error>
#include <vector>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "base/env.h"
#include "base/file.h"
#include "base/fnv1a.h"
#include "base/log.h"
#include "base/trusted_path.h"
#include "llm/checkpoint/safetensors.h"
#include "llm/parallel/plan.h"
#include "llm/quantize/weights.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

constexpr const char* format = "2";  // part of the file name, so that each format has its own files
constexpr std::int64_t default_size = std::int64_t{32} << 30;

void warn(const std::string& text) { log(LogLevel::warning, "model cache: " + text); }

fs::path cache_folder() {
  if (const auto named = env("ANYACCEL_MODEL_CACHE"))
    return fs::absolute(*named).lexically_normal();
  if (const auto base = env("XDG_CACHE_HOME"); base && base->front() == '/')
    return fs::path(*base) / "anyaccel" / "models";
  if (const auto home = env("HOME"); home && home->front() == '/')
    return fs::path(*home) / ".cache" / "anyaccel" / "models";
  return {};
}

/// Creates the folder so that only this user can access it. Logs a warning and returns false on
/// failure.
bool prepare(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder.parent_path(), failed);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    warn(folder.string() + " cannot be created: " + std::generic_category().message(errno));
    return false;
  }
  struct stat info {};
  const bool own = ::stat(folder.c_str(), &info) == 0 && info.st_uid == ::geteuid();
  const auto problem =
      own ? trust_problem(folder, TrustedKind::folder) : "it belongs to a different user";
  if (!problem.empty()) {
    warn(folder.string() + " is not used: " + problem +
         "; set ANYACCEL_MODEL_CACHE to use another folder");
    return false;
  }
  return true;
}

/// Removes the least recently used files until the total size is within the limit.
void make_room(const fs::path& folder) {
  const auto limit =
      static_cast<std::uintmax_t>(env_bytes("ANYACCEL_MODEL_CACHE_SIZE").value_or(default_size));
  std::multimap<fs::file_time_type, std::pair<fs::path, std::uintmax_t>> files;
  std::uintmax_t all = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (!entry.is_regular_file(ignored)) continue;
    const std::uintmax_t size = entry.file_size(ignored);
    files.emplace(entry.last_write_time(ignored), std::pair(entry.path(), size));
    all += size;
  }
  for (const auto& [time, file] : files) {
    if (all <= limit) return;
    if (fs::remove(file.first, ignored)) all -= file.second;
  }
}

std::string identity(const fs::path& folder, const LoadOptions& options, const ParallelPlan* plan) {
  std::string text = std::string("format ") + format + "\n" + fs::canonical(folder).string() +
                     "\n" + dtype_name(options.dtype) + " " + std::to_string(options.bits) + " " +
                     std::to_string(options.group_size) + "\n" + (plan ? plan->key : "");
  std::vector<std::string> lines;
  for (const auto& entry : fs::directory_iterator(folder)) {
    struct stat info {};
    if (::stat(entry.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors") && !name.ends_with(".json")) continue;
    lines.push_back(name + " " + std::to_string(info.st_size) + " " +
                    std::to_string(info.st_mtim.tv_sec) + "." +
                    std::to_string(info.st_mtim.tv_nsec) + "\n");
  }
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) text += line;
  return text;
}

/// Returns the hash of a text as 16 hexadecimal digits. Collisions are harmless, because load()
/// compares the complete text.
std::string short_name(const std::string& text) {
  const std::uint64_t hash = fnv1a(kFnv1aStart, text);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
  return digits;
}

/// A tensor in the file, and the model's tensor or scales that it replaces.
struct Found {
  at::Tensor* place;
  at::Tensor value;
};

[[noreturn]] void unfit(const std::string& name) {
  throw Error(ErrorCode::corrupt, "model cache",
              {.what = "tensor " + name + " does not match the model"});
}

void find_matrix(const SafetensorsFile& file, const std::string& name, at::Tensor& weight,
                 Scales& scales, std::vector<Found>& found) {
  const at::Tensor value = file.tensor(name);
  if (value.scalar_type() == weight.scalar_type()) {
    if (value.sizes() != weight.sizes()) unfit(name);
    found.push_back({&weight, value});
    return;
  }
  const bool bytes = value.scalar_type() == c10::kByte;
  const at::Tensor factor = file.tensor(name + ".scales");
  const std::int64_t inputs = weight.size(1);
  if ((!bytes && value.scalar_type() != c10::kChar) || value.dim() != 2 ||
      value.size(0) != weight.size(0) || value.size(1) * (bytes ? 2 : 1) != inputs ||
      factor.scalar_type() != c10::kFloat || factor.dim() != 2 ||
      factor.size(0) != weight.size(0) || factor.size(1) < 1 || inputs % factor.size(1) != 0 ||
      inputs / factor.size(1) % 32 != 0)
    unfit(name);
  found.push_back({&weight, value});
  found.push_back({&scales.scales, factor});
  if (!file.contains(name + ".zeros")) return;
  const at::Tensor zeros = file.tensor(name + ".zeros");
  if (!bytes || zeros.scalar_type() != c10::kByte || zeros.sizes() != factor.sizes()) unfit(name);
  found.push_back({&scales.zeros, zeros});
}

}  // namespace

QuantizedFile::QuantizedFile(const fs::path& folder, const LoadOptions& options,
                             const ParallelPlan* plan)
    : identity_(identity(folder, options, plan)), path_(cache_folder()) {
  if (!path_.empty()) path_ /= short_name(identity_) + ".safetensors";
}

bool QuantizedFile::load(Weights& weights) const {
  std::error_code ignored;
  if (path_.empty() || !fs::exists(path_, ignored)) return false;
  try {
    if (!prepare(path_.parent_path())) return false;
    const SafetensorsFile file(path_);
    const auto told = file.metadata().find("identity");
    if (told == file.metadata().end() || told->second != identity_) return false;
    const c10::Device device = weights.embedding.device();
    std::vector<Found> found;
    each_matrix(weights, [&](const std::string& name, at::Tensor& weight, Scales& scales) {
      // A head that could not be quantized still shares the embedding's tensor.
      if (&weight == &weights.head && weight.is_same(weights.embedding) && !file.contains(name))
        return;
      find_matrix(file, name, weight, scales, found);
    });
    each_parameter(weights, [&](const std::string& name, at::Tensor& tensor) {
      const bool matrix = std::any_of(found.begin(), found.end(),
                                      [&](const Found& each) { return each.place == &tensor; });
      if (matrix) return;
      const at::Tensor value = file.tensor(name);
      if (value.scalar_type() != tensor.scalar_type() || value.sizes() != tensor.sizes())
        unfit(name);
      found.push_back({&tensor, value});
    });
    const bool tied = weights.head.is_same(weights.embedding) && !file.contains("head");
    for (const Found& each : found) *each.place = each.value.to(device);
    if (tied) weights.head = weights.embedding;
    each_matrix(weights, [&](const std::string&, at::Tensor&, Scales& scales) {
      weights.quantized = weights.quantized || scales.scales.defined();
    });
    // Mark the file as recently used.
    fs::last_write_time(path_, fs::file_time_type::clock::now(), ignored);
    log(LogLevel::info, "model cache: read " + path_.string());
    return true;
  } catch (const std::exception& error) {
    warn(path_.string() + " is corrupt and will be recreated: " + error.what());
    return false;
  }
}

void QuantizedFile::save(Weights& weights) const {
  if (path_.empty()) return;
  try {
    if (!prepare(path_.parent_path())) return;
    NamedTensors tensors;
    each_parameter(weights, [&](const std::string& name, at::Tensor& tensor) {
      tensors.emplace_back(name, tensor);
    });
    each_matrix(weights, [&](const std::string& name, at::Tensor& /*weight*/, Scales& scales) {
      if (!scales.scales.defined()) return;
      tensors.emplace_back(name + ".scales", scales.scales);
      if (scales.zeros.defined()) tensors.emplace_back(name + ".zeros", scales.zeros);
    });
    AtomicFile file(path_);
    write_safetensors(file, tensors, {{"identity", identity_}});
    file.flush();
    file.commit();
    make_room(path_.parent_path());
  } catch (const std::exception& error) {
    warn("cannot save the weights: " + std::string(error.what()));
  }
}

}  // namespace anyaccel::llm
