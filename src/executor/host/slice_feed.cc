#include "src/executor/host/slice_feed.h"

namespace harmonaize {

Status PlaceWindows(SliceFeed* feed, std::vector<RankWindow>* windows,
                    std::vector<SlicedBuffer>* inputs, std::vector<SlicedBuffer>* outputs) {
  windows->clear();
  HZ_RETURN_IF_ERROR(feed->FindWindows(windows));
  for (const RankWindow& window : *windows) {
    const auto rank = static_cast<size_t>(window.rank);
    if (window.input.exists()) (*inputs)[rank] = {window.input, window.slot_bytes};
    if (window.output.exists()) (*outputs)[rank] = {window.output, window.slot_bytes};
  }
  return Status::Ok();
}

}  // namespace harmonaize
