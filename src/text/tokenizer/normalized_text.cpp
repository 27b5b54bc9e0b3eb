#include "text/tokenizer/normalized_text.h"

#include <algorithm>

#include "text/tokenizer/pattern.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

NormalizedText NormalizedText::part(std::string_view text, bool begins, TextLimit limit) {
  const std::size_t lead = begins && !text.empty() ? utf8_front(text).length : 0;
  return {std::string(text), begins, lead, limit};
}

void LeadTracker::add(std::size_t bytes, std::int64_t change) {
  if (done_) return;
  const bool inside = change <= 0 ? at_ < lead_ : at_ == 0 ? begins_ : at_ <= lead_;
  for (std::int64_t i = change; i <= 0 && at_ < text_.size(); ++i)
    at_ += utf8_front(text_.substr(at_)).length;
  if (inside) out_ += bytes;
  done_ = !inside;
}

std::size_t lead_of_replaced(const std::vector<Stretch>& stretches, std::size_t bytes, bool begins,
                             std::size_t lead) {
  std::size_t out = 0;
  for (const Stretch& stretch : stretches) {
    // The replacement is aligned to the last byte of the match.
    const bool inside = stretch.end == 0 ? begins : stretch.end <= lead;
    if (stretch.match) {
      if (inside) out += bytes;
    } else if (stretch.begin < lead) {
      out += std::min(stretch.end, lead) - stretch.begin;
    }
    if (!inside) break;
  }
  return out;
}

}  // namespace anyaccel::llm
