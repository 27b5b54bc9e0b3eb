#include "llm/data/corpus.h"

#include <gtest/gtest.h>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

// Fails if bytes are lost, documents lack an end token, or the held-out documents are not every
// tenth document.
TEST(Corpus, EveryTenthDocument) {
  const TemporaryFolder folder;
  for (int i = 10; i < 50; ++i)
    folder.write("d/" + std::to_string(i), std::string(30, static_cast<char>('A' + i - 10)));
  const Corpus corpus = load_corpus({folder / "d"}, 8);
  EXPECT_EQ(corpus.files, 40);
  EXPECT_EQ(corpus.held_out_documents, 4);
  EXPECT_EQ(corpus.train_documents, 36);
  EXPECT_EQ(corpus.held_out.size(), 4U * 31);
  EXPECT_EQ(corpus.held_out[0], 'A' + 5);  // the sixth of every ten documents in sorted order
  EXPECT_EQ(corpus.held_out[30], kEndOfText);
  EXPECT_EQ(corpus.train.size(), 36U * 31);
  EXPECT_EQ(load_corpus({folder / "d"}, 8).fingerprint, corpus.fingerprint);
  folder.write("d/10", std::string(30, 'z'));
  EXPECT_NE(load_corpus({folder / "d"}, 8).fingerprint, corpus.fingerprint);
}

// Fails if a single file has no held-out part, or splitting the file changes its text.
TEST(Corpus, OneFile) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 500; ++i) text += "line " + std::to_string(i) + "\n";
  const Corpus corpus = load_corpus({folder.write("f", text)}, 16);
  EXPECT_EQ(
      corpus.train.size() + corpus.held_out.size(),
      text.size() + static_cast<std::size_t>(corpus.train_documents + corpus.held_out_documents));
  EXPECT_GT(corpus.held_out.size(), text.size() / 25);
  EXPECT_LT(corpus.held_out.size(), text.size() / 5);
}

// Fails if hidden or binary files in a folder become training text.
TEST(Corpus, SkipsHiddenAndBinaryFiles) {
  const TemporaryFolder folder;
  folder.write("d/text", std::string(1000, 'a'));
  folder.write("d/.git/config", std::string(1000, 'b'));
  folder.write("d/binary", std::string(1000, '\0'));
  const Corpus corpus = load_corpus({folder / "d"}, 8);
  EXPECT_EQ(corpus.files, 1);
}

// Fails if the error about missing, unreadable or insufficient data does not name the problem.
TEST(Corpus, Errors) {
  const TemporaryFolder folder;
  EXPECT_ERROR(load_corpus({folder / "none"}, 8), not_found, "none");
  EXPECT_ERROR(load_corpus({folder.write("short", "abc")}, 64), invalid_argument,
               "too little text");
  EXPECT_ERROR(load_corpus({"/proc/self/mem"}, 8), io, "/proc/self/mem");
}

// Fails if the default text is not found in the LibTorch installation that this test uses.
TEST(Corpus, DefaultData) { EXPECT_TRUE(std::filesystem::exists(default_data() / "c10")); }

}  // namespace
}  // namespace anyaccel::llm
