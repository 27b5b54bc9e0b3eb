// Prefill and decode run on separate streams and share a KV cache. A decode step reads the whole
// cache while the prefill of another sequence writes to it. Rows that only one stream uses are not
// a problem.
#include "bug.h"

namespace anyaccel::sim_bugs {

SIM_BUG(kv_cache_shared, "unordered_streams", "aten::bmm", "float32 [4, 16, 128]") {
  auto& accelerator = get_accelerator();
  const auto prompt = accelerator.Stream(), decode = accelerator.Stream();
  const auto cache = at::zeros({4, 128, 16}, on());
  const auto keys = at::ones({16}, on());
  const auto query = at::ones({4, 1, 16}, on());
  prompt.wait_stream(accelerator.current_stream());
  decode.wait_stream(accelerator.current_stream());
  for (int position = 0; position < 100; ++position) {
    const auto guard = accelerator.stream(position % 2 == 0 ? prompt : decode);
    cache[position % 2][position].copy_(keys);
  }
  if (fixed) decode.wait_stream(prompt);
  {
    const auto guard = accelerator.stream(decode);
    const auto scores = at::bmm(query, cache.transpose(1, 2));
  }
  for (const auto& stream : {prompt, decode}) stream.synchronize();
}

}  // namespace anyaccel::sim_bugs
