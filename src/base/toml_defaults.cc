#include "src/base/toml_defaults.h"

#include <sstream>

#include "src/base/toml_parse.h"

namespace harmonaize {
namespace {

void AddMissing(const toml::table& from, toml::table* into) {
  for (const auto& [key, node] : from) {
    toml::node* const present = into->get(key.str());
    if (present == nullptr) {
      into->insert(key.str(), node);
    } else if (node.is_table() && present->is_table()) {
      AddMissing(*node.as_table(), present->as_table());
    }
  }
}

}  // namespace

Result<std::string> WithTomlDefaults(std::string_view text, std::string_view name,
                                     std::string_view defaults) {
  HZ_ASSIGN_OR_RETURN(toml::table document, ParseToml(text, name));
  HZ_ASSIGN_OR_RETURN(const toml::table missing, ParseToml(defaults, "defaults"));
  AddMissing(missing, &document);
  std::ostringstream written;
  // Only double quotes are used: toml++ would also use single ones for strings that they cannot
  // hold.
  written << toml::toml_formatter(document, toml::format_flags::none) << '\n';
  return written.str();
}

}  // namespace harmonaize
