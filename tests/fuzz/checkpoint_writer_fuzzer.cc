// What a rank says to its harmonaize-writer, and the writer to the rank.

#include <string>
#include <string_view>

#include "src/checkpoint/shard.h"
#include "src/checkpoint/writer_messages.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

void Run(std::string_view text) {
  if (const auto message = checkpoint::DecodeToWriter(text); message.ok()) {
    const auto encoded = checkpoint::Encode(*message);
    RequireOk(encoded.status(), "what was decoded can be encoded");
    const auto again = checkpoint::DecodeToWriter(*encoded);
    Require(again.ok() && *again == *message, "a message is read as it is written");
    if (const auto* const open = std::get_if<checkpoint::OpenStore>(&*message)) {
      Require(open->folder.starts_with('/'), "a store's folder is an absolute path");
      Require(open->rank >= 0 && open->rank < open->ranks, "the rank is one of the ranks");
      if (!open->job.empty()) RequireOk(checkpoint::CheckName(open->job), "a job's name");
    }
  }
  if (const auto message = checkpoint::DecodeFromWriter(text); message.ok()) {
    const auto encoded = checkpoint::Encode(*message);
    RequireOk(encoded.status(), "what was decoded can be encoded");
    Require(checkpoint::DecodeFromWriter(*encoded).ok(), "what was encoded can be decoded");
    if (const auto* const failed = std::get_if<checkpoint::SaveFailed>(&*message)) {
      RequireClean(failed->message, "a failure's words");
    }
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
