#include "src/base/toml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "src/base/names.h"
#include "src/base/toml_parse.h"

namespace harmonaize {

struct TomlReader::State {
  struct Problem {
    toml::source_position where;
    std::string what;
  };
  std::string name;
  toml::table root;
  std::set<std::string, std::less<>> known;
  std::vector<Problem> problems;
};

namespace {

using Unknown = std::vector<std::pair<toml::source_position, std::string>>;

void CollectUnknown(const toml::table& table, const std::string& prefix,
                    const std::set<std::string, std::less<>>& known, Unknown* unknown);

// Collects unknown keys in the tables of a list that was asked for with Tables.
void CollectUnknownInList(const toml::node& node, const std::string& list,
                          const std::set<std::string, std::less<>>& known, Unknown* unknown) {
  const toml::array* array = node.as_array();
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const toml::table* table = array->get(i)->as_table();
    if (table != nullptr) {
      CollectUnknown(*table, fmt::format("{}[{}].", list, i), known, unknown);
    }
  }
}

void CollectUnknown(const toml::table& table, const std::string& prefix,
                    const std::set<std::string, std::less<>>& known, Unknown* unknown) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    if (known.contains(full)) {
      CollectUnknownInList(node, full, known, unknown);
      continue;
    }
    if (const toml::table* inner = node.as_table()) {
      CollectUnknown(*inner, full + ".", known, unknown);
      if (!inner->empty()) continue;
      const bool is_section = std::any_of(known.begin(), known.end(), [&](const std::string& k) {
        return k.starts_with(full + ".");
      });
      if (is_section) continue;
    }
    unknown->emplace_back(key.source().begin, full);
  }
}

}  // namespace

TomlReader::TomlReader(TomlReader&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)) {}
TomlReader& TomlReader::operator=(TomlReader&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}
TomlReader::~TomlReader() {
  delete state_;
}

Result<TomlReader> TomlReader::FromFile(const std::string& path) {
  std::ifstream file(path);
  if (!file) return ErrnoError(errno, fmt::format("cannot read {}", path));
  std::ostringstream text;
  text << file.rdbuf();
  return FromString(text.str(), path);
}

Result<TomlReader> TomlReader::FromString(std::string_view text, std::string name) {
  HZ_ASSIGN_OR_RETURN(toml::table root, ParseToml(text, name));
  return TomlReader(new State{std::move(name), std::move(root), {}, {}});
}

const toml::node* TomlReader::Find(std::string_view key) {
  state_->known.emplace(key);
  return state_->root.at_path(key).node();
}

void TomlReader::Wrong(const toml::node& node, std::string what) {
  state_->problems.push_back({node.source().begin, std::move(what)});
}

void TomlReader::Integer(std::string_view key, int64_t least, int64_t most, int64_t* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const auto* integer = node->as_integer();
  if (integer == nullptr || integer->get() < least || integer->get() > most) {
    return Wrong(*node, fmt::format("'{}' must be an integer from {} to {}", key, least, most));
  }
  *value = integer->get();
}

void TomlReader::Number(std::string_view key, double least, double most, double* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const std::optional<double> number = node->value<double>();
  if (!number || !(*number >= least && *number <= most)) {
    return Wrong(*node, fmt::format("'{}' must be a number from {} to {}", key, least, most));
  }
  *value = *number;
}

void TomlReader::Boolean(std::string_view key, bool* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  if (!node->is_boolean()) return Wrong(*node, fmt::format("'{}' must be true or false", key));
  *value = node->as_boolean()->get();
}

void TomlReader::String(std::string_view key, std::string* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  if (!node->is_string()) return Wrong(*node, fmt::format("'{}' must be a string", key));
  *value = node->as_string()->get();
}

void TomlReader::Choice(std::string_view key, std::vector<std::string_view> choices,
                        std::string* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const std::string given = node->is_string() ? node->as_string()->get() : "";
  if (std::find(choices.begin(), choices.end(), given) == choices.end()) {
    return Wrong(*node, fmt::format("'{}' must be one of \"{}\"{}", key,
                                    fmt::join(choices, "\", \""), DidYouMean(given, choices)));
  }
  *value = given;
}

void TomlReader::IntegerList(std::string_view key, int64_t least, int64_t most,
                             std::vector<int64_t>* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const std::string expected =
      fmt::format("'{}' must be a list of integers from {} to {}", key, least, most);
  if (!node->is_array()) return Wrong(*node, expected);
  std::vector<int64_t> list;
  for (const toml::node& element : *node->as_array()) {
    const auto* integer = element.as_integer();
    if (integer == nullptr || integer->get() < least || integer->get() > most) {
      return Wrong(element, expected);
    }
    list.push_back(integer->get());
  }
  *value = std::move(list);
}

void TomlReader::StringList(std::string_view key, std::vector<std::string>* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  std::vector<std::string> list;
  if (node->is_string()) {
    list.push_back(node->as_string()->get());
  } else if (const toml::array* array = node->as_array()) {
    for (const toml::node& element : *array) {
      if (!element.is_string()) return Wrong(element, fmt::format("'{}' lists strings only", key));
      list.push_back(element.as_string()->get());
    }
  } else {
    return Wrong(*node, fmt::format("'{}' must be a string or a list of strings", key));
  }
  *value = std::move(list);
}

size_t TomlReader::Tables(std::string_view key) {
  const toml::node* node = Find(key);
  if (node == nullptr) return 0;
  const toml::array* array = node->as_array();
  if (array == nullptr || !array->is_homogeneous(toml::node_type::table)) {
    Wrong(*node, fmt::format("'{0}' must be tables: [[{0}]]", key));
    return 0;
  }
  return array->size();
}

bool TomlReader::Has(std::string_view key) const {
  return state_->root.at_path(key).node() != nullptr;
}

void TomlReader::Reject(std::string_view key, std::string what) {
  for (;;) {
    if (const toml::node* node = state_->root.at_path(key).node()) {
      return Wrong(*node, std::move(what));
    }
    const size_t dot = key.rfind('.');
    if (dot == std::string_view::npos) return Wrong(state_->root, std::move(what));
    key = key.substr(0, dot);
  }
}

Status TomlReader::Finish() {
  Unknown unknown;
  CollectUnknown(state_->root, "", state_->known, &unknown);
  const std::vector<std::string_view> names(state_->known.begin(), state_->known.end());
  for (const auto& [where, key] : unknown) {
    state_->problems.push_back(
        {where, fmt::format("unknown key '{}'{}", key, DidYouMean(key, names))});
  }
  if (state_->problems.empty()) return Status::Ok();
  const auto first = std::min_element(
      state_->problems.begin(), state_->problems.end(),
      [](const State::Problem& a, const State::Problem& b) { return a.where < b.where; });
  return TomlProblem(state_->name, first->where, first->what);
}

}  // namespace harmonaize
