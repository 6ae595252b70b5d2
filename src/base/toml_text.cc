#include "src/base/toml_text.h"

#include <fmt/format.h>

namespace harmonaize {

std::string TomlText(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') {
      quoted += '\\';
      quoted += letter;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += letter;
    }
  }
  return quoted + "\"";
}

}  // namespace harmonaize
