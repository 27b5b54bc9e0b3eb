#include "llm/checkpoint/checkpoint.h"

#include "anyaccel/error.h"
#include "base/file_group.h"
#include "base/untrusted_text.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void corrupt(const std::string& what, std::string got = {}, std::string want = {}) {
  throw Error(ErrorCode::corrupt, "load_checkpoint",
              {.what = what, .got = std::move(got), .want = std::move(want)});
}

/// The index is untrusted: it may only name files in this folder.
bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && fs::path(name).filename() == name;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ErrorCode::not_found, "load_checkpoint",
                {.what = folder.string() + " is not a folder"});
  }
  finish_file_group(folder);
  if (fs::exists(single, ignored)) {
    files_.push_back(std::make_shared<SafetensorsFile>(single));
    for (const auto& [name, entry] : files_.front()->entries()) where_[name] = files_.front().get();
    return;
  }
  if (!fs::exists(index, ignored)) {
    throw Error(ErrorCode::not_found, "load_checkpoint",
                {.what = folder.string() + " has no weights",
                 .want = "model.safetensors or model.safetensors.index.json"});
  }
  const Json json = read_json_object(index, kLargeJson);
  const Json* map = JsonReader(json, index.string()).object("weight_map");
  if (!map || map->empty()) corrupt(index.string() + " lacks a weight_map");
  std::map<std::string, std::shared_ptr<SafetensorsFile>> opened;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string() || !is_file_name(file.get_ref<const std::string&>())) {
      corrupt(index.string() + ": invalid file name for tensor " + quoted_text(name),
              printable_text(file.dump(), 200), "the name of a file in this folder");
    }
    auto& shard = opened[file.get<std::string>()];
    if (!shard) {
      shard = std::make_shared<SafetensorsFile>(folder / file.get<std::string>());
      files_.push_back(shard);
    }
    if (!shard->contains(name))
      corrupt(shard->path().string() + " lacks tensor " + quoted_text(name) +
              ", which the index lists");
    where_[name] = shard.get();
  }
}

at::Tensor Checkpoint::tensor(const std::string& name) const {
  const auto it = where_.find(name);
  if (it == where_.end()) corrupt(folder_.string() + " lacks tensor " + quoted_text(name));
  return it->second->tensor(name);
}

at::Tensor Checkpoint::tensor(const std::string& name, at::IntArrayRef shape) const {
  const auto it = where_.find(name);
  if (it == where_.end())
    corrupt(folder_.string() + " lacks tensor " + quoted_text(name), {},
            "shape " + shortened_list(shape));
  at::Tensor tensor = it->second->tensor(name);
  if (tensor.sizes() != shape) {
    corrupt(it->second->path().string() + ": tensor " + quoted_text(name) + " has the wrong shape",
            shortened_list(tensor.sizes()), shortened_list(shape) + ", as in config.json");
  }
  return tensor;
}

at::Tensor Checkpoint::floats(const std::string& name, at::IntArrayRef shape) const {
  at::Tensor found = tensor(name, shape);
  if (!found.is_floating_point()) {
    corrupt(
        where_.at(name)->path().string() + ": tensor " + quoted_text(name) + " has the wrong dtype",
        std::string(safetensors_dtype(found.scalar_type())), "a floating-point dtype");
  }
  return found;
}

}  // namespace anyaccel::llm
