// Frames of the control link between daemons, and the hello that is the first of them.

#include <cstdint>
#include <optional>
#include <vector>

#include "src/transport/tcp/wire.h"
#include "tests/fuzz/fuzzing.h"

namespace harmonaize::fuzz {
namespace {

using namespace transport;

void DecodeFirst(std::span<const std::byte> payload) {
  const Result<Hello> hello = DecodeHello(payload);
  if (!hello.ok()) return;
  Require(hello->rails.size() <= kMaxRails, "no more rails than a link may have");
  const Result<Hello> again = DecodeHello(EncodeHello(*hello));
  RequireOk(again.status(), "what is encoded can be decoded");
  Require(*again == *hello, "a hello is the same when it is decoded again");
}

void Run(Input input) {
  const size_t portion = input.TakeUpTo(255) + 1;
  const std::span<const std::byte> stream = input.TakeRest();
  FrameReader reader;
  std::vector<std::byte> again;
  bool broken = false;
  for (size_t place = 0; place < stream.size() && !broken; place += portion) {
    reader.Append(stream.subspan(place, std::min(portion, stream.size() - place)));
    while (true) {
      const Result<std::optional<Frame>> frame = reader.Next();
      broken = !frame.ok();
      if (broken || !frame->has_value()) break;
      Require((*frame)->payload.size() <= kMaxControlBytes, "no longer than a frame may be");
      AppendFrame((*frame)->type, (*frame)->payload, &again);
      DecodeFirst((*frame)->payload);
    }
    Require(broken == !reader.Next().ok(), "what is no stream of frames stays none");
  }
  Require(again.size() <= stream.size() && std::equal(again.begin(), again.end(), stream.begin()),
          "frames are the stream");
  DecodeFirst(stream);
}

}  // namespace
}  // namespace harmonaize::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  harmonaize::fuzz::Run(harmonaize::fuzz::Input(data, size));
  return 0;
}
