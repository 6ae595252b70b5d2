#include "cli/status/stock_nccl_note.h"

#include <fmt/format.h>

namespace harmonaize {

std::vector<std::string> StockNcclNote(const Json& communicator) {
  const Json& told = At(communicator, "stock_nccl");
  if (!told.is_object()) return {};
  return {fmt::format("{}: {} calls, {}, {} inside them, as its ranks here say",
                      TextAt(communicator, "kind"), TextAt(told, "calls"), BytesAt(told, "bytes"),
                      TimeAt(told, "seconds"))};
}

}  // namespace harmonaize
