#include "text/tokenizer/pipeline.h"

namespace anyaccel::llm {

void Pieces::add(Piece piece) {
  if (piece.text.empty()) return;
  limit_.check(bytes_ += piece.text.size());
  all_.push_back(std::move(piece));
}

}  // namespace anyaccel::llm
