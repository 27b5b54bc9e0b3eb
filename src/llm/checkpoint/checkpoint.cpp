#include "llm/checkpoint/checkpoint.h"

#include <sstream>

#include "anyaccel/error.h"
#include "base/file_group.h"
#include "llm/support/json.h"

namespace anyaccel::llm {

namespace {

namespace fs = std::filesystem;

std::string shape_text(at::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

[[noreturn]] void corrupt(const std::string& what, std::string got = {}, std::string want = {}) {
  throw Error(ErrorCode::corrupt, "load_checkpoint", {.what = what, .got = std::move(got), .want = std::move(want)});
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw Error(ErrorCode::not_found, "load_checkpoint", {.what = folder.string() + " is no folder"});
  }
  finish_file_group(folder);
  if (fs::exists(single, ignored)) {
    files_.push_back(std::make_shared<SafetensorsFile>(single));
    for (const auto& [name, entry] : files_.front()->entries()) where_[name] = files_.front().get();
    return;
  }
  if (!fs::exists(index, ignored)) {
    throw Error(
        ErrorCode::not_found, "load_checkpoint",
        {.what = folder.string() + " has no weights", .want = "model.safetensors or model.safetensors.index.json"});
  }
  const Json json = read_json_object(index);
  const Json* map = JsonReader(json, index.string()).object("weight_map");
  if (!map || map->empty()) corrupt(index.string() + " lacks a weight_map");
  std::map<std::string, std::shared_ptr<SafetensorsFile>> opened;
  for (const auto& [name, file] : map->items()) {
    // The index is outside data: it may name files of this folder and no others.
    if (!file.is_string() || fs::path(file.get<std::string>()).filename() != file.get<std::string>() ||
        file.get<std::string>() == "..") {
      corrupt(index.string() + ": bad file name for tensor \"" + name + "\"", file.dump());
    }
    auto& shard = opened[file.get<std::string>()];
    if (!shard) {
      shard = std::make_shared<SafetensorsFile>(folder / file.get<std::string>());
      files_.push_back(shard);
    }
    if (!shard->contains(name))
      corrupt(shard->path().string() + " lacks tensor \"" + name + "\" that the index puts there");
    where_[name] = shard.get();
  }
}

at::Tensor Checkpoint::tensor(const std::string& name) const {
  const auto it = where_.find(name);
  if (it == where_.end()) corrupt(folder_.string() + " lacks tensor \"" + name + "\"");
  return it->second->tensor(name);
}

at::Tensor Checkpoint::tensor(const std::string& name, at::IntArrayRef shape) const {
  const auto it = where_.find(name);
  if (it == where_.end())
    corrupt(folder_.string() + " lacks tensor \"" + name + "\"", {}, "shape " + shape_text(shape));
  at::Tensor tensor = it->second->tensor(name);
  if (tensor.sizes() != shape) {
    corrupt(it->second->path().string() + ": tensor \"" + name + "\" has the wrong shape", shape_text(tensor.sizes()),
            shape_text(shape) + " as config.json says");
  }
  return tensor;
}

}  // namespace anyaccel::llm
