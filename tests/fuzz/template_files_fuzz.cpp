// Each file that may contain a chat template is accepted, or rejected with a typed error. The same
// bytes serve as every such file.
// sources: text/chat/template_files.cpp text/tokenizer/utf8.cpp text/json.cpp base/file.cpp
// sources: base/error.cpp base/untrusted_text.cpp
// libraries: icuuc
// options: -timeout=5 -rss_limit_mb=512
#include "text/chat/template_files.h"

#include "anyaccel/error.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"}) {
    const auto& folder = fuzz::folder_with(name, data, size);
    try {
      (void)llm::chat::read_template(folder);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::corrupt) std::abort();
    }
    std::filesystem::remove(folder / name);
  }
  return 0;
}
