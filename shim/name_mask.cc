#include "shim/name_mask.h"

#include <strings.h>

namespace harmonaize::shim {
namespace {

unsigned BitsOf(std::string_view text, std::span<const NamedBits> names) {
  for (const NamedBits& known : names) {
    if (known.name.size() == text.size() &&
        strncasecmp(known.name.data(), text.data(), text.size()) == 0) {
      return known.bits;
    }
  }
  return 0;
}

}  // namespace

unsigned ParseNameMask(std::string_view text, std::span<const NamedBits> names) {
  const bool all_but = text.starts_with('^');
  if (all_but) text.remove_prefix(1);
  unsigned named = 0;
  while (!text.empty()) {
    const size_t end = text.find(',');
    named |= BitsOf(text.substr(0, end), names);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return all_but ? ~named : named;
}

}  // namespace harmonaize::shim
