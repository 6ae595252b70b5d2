// What a Kubernetes API server says of a node, poll by poll.

#include <cstdint>

#include "daemon/sources/kubernetes_node.h"
#include "tests/fuzz/fuzzing.h"
#include "tests/fuzz/notice_checks.h"

namespace harmonaize::fuzz {
namespace {

void Run(std::string_view text) {
  NoticeChecks checks;
  for (const std::string& document : DocumentsOf(text)) {
    const Result<daemon::PublishedNotices> published =
        daemon::ReadKubernetesNode(document, "node-7");
    RequireClean(published.status().message(), "an error can be logged");
    if (published.ok()) checks.Take(*published);
  }
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::TextOf(data, size));
  return 0;
}
