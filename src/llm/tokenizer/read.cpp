// tokenizer.json of the `tokenizers` library: what of it we read, and by name what we do not.
#include <algorithm>

#include "anyaccel/error.h"
#include "llm/support/json.h"
#include "llm/tokenizer/byte_symbols.h"
#include "llm/tokenizer/data.h"

namespace anyaccel::llm {

namespace {

constexpr std::int64_t kMaxId = (std::int64_t{1} << 31) - 1;

[[noreturn]] void unsupported(const std::string& source, const std::string& construct) {
  throw Error(ErrorCode::unsupported, "load_tokenizer",
              {.what = source + ": " + construct + " is not supported",
               .want = "a byte-level BPE without regular expression, normalizer or template",
               .hint = "give token ids with --prompt-ids"});
}

[[noreturn]] void corrupt(const std::string& source, const std::string& what) {
  throw Error(ErrorCode::corrupt, "load_tokenizer", {.what = source + ": " + what});
}

std::string type_of(const Json& object, const std::string& source) {
  return JsonReader(object, source).string("type").value_or("(none)");
}

void check_pipeline(const Json& root, const JsonReader& in, bool has_merges) {
  const std::string& source = in.source();
  if (const Json* normalizer = in.object("normalizer"))
    unsupported(source, "normalizer " + type_of(*normalizer, source));
  const Json* splitter = in.object("pre_tokenizer");
  if (!splitter) unsupported(source, "a vocabulary without the ByteLevel pre-tokenizer");
  const JsonReader level(*splitter, source + ", pre_tokenizer");
  if (type_of(*splitter, source) != "ByteLevel") unsupported(source, "pre-tokenizer " + type_of(*splitter, source));
  if (level.boolean("add_prefix_space").value_or(true)) unsupported(source, "add_prefix_space");
  // The library's default is to split; without merges that changes nothing.
  if (has_merges && level.boolean("use_regex").value_or(true)) {
    unsupported(source, "the ByteLevel pre-tokenizer's regular expression (use_regex)");
  }
  if (const Json* post = in.object("post_processor"); post && type_of(*post, source) != "ByteLevel") {
    unsupported(source, "post-processor " + type_of(*post, source));
  }
  const Json* decoder = in.object("decoder");
  if (decoder && type_of(*decoder, source) != "ByteLevel") unsupported(source, "decoder " + type_of(*decoder, source));
  if (in.has("truncation") || in.has("padding"))
    unsupported(source, root.contains("truncation") ? "truncation" : "padding");
}

void check_model(const Json& model, const std::string& source) {
  const JsonReader in(model, source + ", model");
  const std::string type = in.string("type").value_or("BPE");
  if (type != "BPE") unsupported(source, "model " + type);
  for (const char* flag : {"byte_fallback", "ignore_merges"}) {
    if (in.boolean(flag).value_or(false)) unsupported(source, flag);
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!in.string(key).value_or("").empty()) unsupported(source, key);
  }
  if (in.number("dropout").value_or(0) != 0) unsupported(source, "dropout");
}

std::pair<std::string, std::string> read_merge(const Json& merge, const std::string& source) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {  // files from before tokenizers 0.20
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
      return {text.substr(0, space), text.substr(space + 1)};
    }
  }
  corrupt(source, "malformed merge " + merge.dump());
}

}  // namespace

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const auto path = folder / "tokenizer.json";
  const std::string source = path.string();
  const Json root = read_json_object(path);
  const JsonReader in(root, source);
  const Json* model = in.object("model");
  if (!model) corrupt(source, "there is no model");
  check_model(*model, source);
  const Json* vocabulary = JsonReader(*model, source).object("vocab");
  if (!vocabulary) corrupt(source, "the model has no vocab");
  const bool has_merges = model->contains("merges") && (*model)["merges"].is_array() && !(*model)["merges"].empty();
  check_pipeline(root, in, has_merges);

  auto data = std::make_shared<Data>();
  data->byte_ids.fill(-1);
  std::unordered_map<std::string, std::int64_t> ids;
  const JsonReader words(*vocabulary, source + ", vocab");
  for (const auto& [word, value] : vocabulary->items()) {
    const std::int64_t id = words.required_integer(word.c_str(), 0, kMaxId);
    ids.emplace(word, id);
    // Words that are no byte symbols can only be added tokens.
    const auto bytes = bytes_of_symbols(word);
    data->bytes.emplace(id, bytes.value_or(word));
    if (bytes && bytes->size() == 1) data->byte_ids[static_cast<unsigned char>((*bytes)[0])] = id;
  }
  if (has_merges) {
    std::int64_t rank = 0;
    for (const Json& merge : (*model)["merges"]) {
      const auto [left, right] = read_merge(merge, source);
      const auto l = ids.find(left), r = ids.find(right), both = ids.find(left + right);
      if (l == ids.end() || r == ids.end() || both == ids.end()) {
        corrupt(source, "the vocabulary lacks a part of merge \"" + left + " " + right + "\"");
      }
      data->merges.emplace(Data::pair(l->second, r->second), Data::Merge{rank++, both->second});
    }
  }
  if (root.contains("added_tokens") && root["added_tokens"].is_array()) {
    for (const Json& token : root["added_tokens"]) {
      const JsonReader one(token, source + ", added_tokens");
      const std::string text = one.string("content").value_or("");
      if (text.empty()) corrupt(source, "an added token has no content");
      for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
        if (one.boolean(flag).value_or(false)) unsupported(source, std::string(flag) + " of added token " + text);
      }
      data->added.push_back({text, one.required_integer("id", 0, kMaxId), one.boolean("special").value_or(false)});
    }
  }
  std::stable_sort(data->added.begin(), data->added.end(),
                   [](const auto& a, const auto& b) { return a.text.size() > b.text.size(); });
  return Tokenizer(std::move(data));
}

}  // namespace anyaccel::llm
