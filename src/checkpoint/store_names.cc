#include "src/checkpoint/store_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "src/checkpoint/json_fields.h"

namespace harmonaize::checkpoint {
namespace {

constexpr size_t kStepDigits = 20;
constexpr std::string_view kHexadecimal = "0123456789abcdef";
/// Of safetensors files, files of torch.save, DCP's files, and bytes without an envelope.
constexpr std::array<std::string_view, 4> kExtensions = {".safetensors", ".pt", ".distcp", ".bin"};

}  // namespace

std::string CheckpointFolderName(const CheckpointId& id) {
  return fmt::format("{:020}-{}", id.step, DigitsOf(id.save));
}

std::optional<CheckpointId> CheckpointIdOf(std::string_view name) {
  CheckpointId id;
  if (name.size() != kStepDigits + 1 + 16 || name[kStepDigits] != '-') return std::nullopt;
  const char* const end = name.data() + kStepDigits;
  const auto [last, error] = std::from_chars(name.data(), end, id.step);
  if (error != std::errc() || last != end || id.step > INT64_MAX) return std::nullopt;
  if (!ParseDigits(name.substr(kStepDigits + 1), &id.save)) return std::nullopt;
  return id;
}

std::string PartFileName(int32_t rank) {
  return fmt::format("part-{:05}.jsonl", rank);
}

bool IsObjectName(std::string_view name) {
  if (name.size() <= kDigestDigits) return false;
  const std::string_view digest = name.substr(0, kDigestDigits);
  return digest.find_first_not_of(kHexadecimal) == std::string_view::npos &&
         std::find(kExtensions.begin(), kExtensions.end(), name.substr(kDigestDigits)) !=
             kExtensions.end();
}

}  // namespace harmonaize::checkpoint
