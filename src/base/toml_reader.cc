#include "src/base/toml_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
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

using KnownKeys = std::set<std::string, std::less<>>;

/// The first of the unknown keys by position, as many as are wanted.
class Unknown {
 public:
  explicit Unknown(size_t most) : most_(most) {}

  void Add(toml::source_position where, std::string key) {
    first_.emplace(where, std::move(key));
    if (first_.size() > most_) first_.erase(std::prev(first_.end()));
  }
  const std::multimap<toml::source_position, std::string>& first() const { return first_; }

 private:
  const size_t most_;
  std::multimap<toml::source_position, std::string> first_;
};

/// Returns whether any key begins so. Takes no longer where there are many keys.
bool AnyBeginsWith(const KnownKeys& known, std::string_view prefix) {
  const auto first = known.lower_bound(prefix);
  return first != known.end() && first->starts_with(prefix);
}

/// The last second of kTimeBounds, since 1970; the first one is 0.
constexpr double kLastSecond = 106'751.0 * 24 * 60 * 60;

/// Returns the seconds of a date and time that has an offset.
double SecondsSince1970(const toml::date_time& given) {
  const auto days = std::chrono::sys_days(std::chrono::year(given.date.year) /
                                          std::chrono::month(given.date.month) /
                                          std::chrono::day(given.date.day));
  const auto day = static_cast<double>(days.time_since_epoch().count());
  return ((day * 24 + given.time.hour) * 60 + given.time.minute - given.offset->minutes) * 60 +
         given.time.second + given.time.nanosecond * 1e-9;
}

void CollectUnknown(const toml::table& table, const std::string& prefix, const KnownKeys& known,
                    Unknown* unknown);

// Collects unknown keys in the tables of a list that was asked for with Tables.
void CollectUnknownInList(const toml::node& node, const std::string& list, const KnownKeys& known,
                          Unknown* unknown) {
  const toml::array* array = node.as_array();
  for (size_t i = 0; array != nullptr && i < array->size(); ++i) {
    const toml::table* table = array->get(i)->as_table();
    if (table != nullptr) {
      CollectUnknown(*table, fmt::format("{}[{}].", list, i), known, unknown);
    }
  }
}

void CollectUnknown(const toml::table& table, const std::string& prefix, const KnownKeys& known,
                    Unknown* unknown) {
  for (const auto& [key, node] : table) {
    const std::string full = prefix + std::string(key.str());
    // A quoted name may spell the way to another key, which it is not.
    const bool spells_a_way = key.str().find_first_of(".[") != std::string_view::npos;
    if (spells_a_way) {
      unknown->Add(key.source().begin, full);
      continue;
    }
    if (known.contains(full)) {
      CollectUnknownInList(node, full, known, unknown);
      continue;
    }
    if (const toml::table* inner = node.as_table()) {
      CollectUnknown(*inner, full + ".", known, unknown);
      if (!inner->empty()) continue;
      const bool is_section = AnyBeginsWith(known, full + ".");
      if (is_section) continue;
    }
    unknown->Add(key.source().begin, full);
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
  if (const auto* number = node->as_integer()) {
    return Wrong(*node, fmt::format("'{}' must be a string, as \"{}\"", key, number->get()));
  }
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

void TomlReader::Choices(std::string_view key, const std::vector<std::string_view>& choices,
                         std::vector<std::string>* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  std::vector<std::string> list;
  const auto take = [&](const toml::node& element) {
    const std::string given = element.is_string() ? element.as_string()->get() : "";
    if (std::find(choices.begin(), choices.end(), given) == choices.end()) {
      Wrong(element, fmt::format("'{}' lists some of \"{}\"{}", key, fmt::join(choices, "\", \""),
                                 DidYouMean(given, choices)));
      return false;
    }
    if (std::find(list.begin(), list.end(), given) != list.end()) {
      Wrong(element, fmt::format("'{}' lists \"{}\" twice", key, given));
      return false;
    }
    list.push_back(given);
    return true;
  };
  if (const toml::array* array = node->as_array()) {
    for (const toml::node& element : *array) {
      if (!take(element)) return;
    }
    if (list.empty()) return Wrong(*node, fmt::format("'{}' lists nothing", key));
  } else if (!take(*node)) {
    return;
  }
  *value = std::move(list);
}

namespace {

std::string ExpectedMeasure(std::string_view key, Measure measure, double least, double most) {
  return fmt::format("'{}' must be from \"{}\" to \"{}\"", key, FormatMeasure(measure, least),
                     FormatMeasure(measure, most));
}

/// Returns the value of the node, in its unit. Errors: what would be right.
Result<double> MeasureOf(const toml::node& node, std::string_view key, Measure measure,
                         double least, double most) {
  if (!node.is_string()) {
    return InvalidArgument("{}; write it as a text with its unit, as in \"{}\"",
                           ExpectedMeasure(key, measure, least, most),
                           measure == Measure::kDuration ? "30 s"
                           : measure == Measure::kRate   ? "2 GB/s"
                                                         : "64 MiB");
  }
  const Result<double> value = ParseMeasure(measure, node.as_string()->get());
  if (!value.ok()) return InvalidArgument("'{}': {}", key, value.status().message());
  if (!(*value >= least && *value <= most)) {
    return InvalidArgument("{}", ExpectedMeasure(key, measure, least, most));
  }
  return *value;
}

}  // namespace

void TomlReader::Measured(std::string_view key, Measure measure, double least, double most,
                          double* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const Result<double> given = MeasureOf(*node, key, measure, least, most);
  if (!given.ok()) return Wrong(*node, given.status().message());
  *value = *given;
}

template <typename Read>
void TomlReader::Range(std::string_view key, std::string_view expected, Read read,
                       ValueRange* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const toml::array* array = node->as_array();
  if (array == nullptr || array->size() != 2) {
    return Wrong(
        *node, fmt::format("'{}' must be a list of two {}, the smaller one first", key, expected));
  }
  const Result<double> first = read(*array->get(0));
  const Result<double> second = read(*array->get(1));
  if (!first.ok()) return Wrong(*array->get(0), first.status().message());
  if (!second.ok()) return Wrong(*array->get(1), second.status().message());
  if (*first > *second) return Wrong(*node, fmt::format("'{}' has the larger one first", key));
  *value = {*first, *second};
}

void TomlReader::IntegerRange(std::string_view key, int64_t least, int64_t most,
                              ValueRange* value) {
  const auto read = [&](const toml::node& node) -> Result<double> {
    const auto* integer = node.as_integer();
    if (integer == nullptr || integer->get() < least || integer->get() > most) {
      return InvalidArgument("'{}' must be integers from {} to {}", key, least, most);
    }
    return static_cast<double>(integer->get());
  };
  Range(key, "integers", read, value);
}

void TomlReader::NumberRange(std::string_view key, double least, double most, ValueRange* value) {
  const auto read = [&](const toml::node& node) -> Result<double> {
    const std::optional<double> number = node.value<double>();
    if (!number || !(*number >= least && *number <= most)) {
      return InvalidArgument("'{}' must be numbers from {} to {}", key, least, most);
    }
    return *number;
  };
  Range(key, "numbers", read, value);
}

void TomlReader::MeasuredRange(std::string_view key, Measure measure, double least, double most,
                               ValueRange* value) {
  Range(
      key, "texts with units",
      [&](const toml::node& node) { return MeasureOf(node, key, measure, least, most); }, value);
}

void TomlReader::Time(std::string_view key, double* value) {
  const toml::node* node = Find(key);
  if (node == nullptr) return;
  const auto* time = node->as_date_time();
  if (time == nullptr || !time->get().offset) {
    return Wrong(*node,
                 fmt::format("'{}' must be a date and time with its offset from UTC, without "
                             "quotes, as in 2027-01-31T18:00:00Z",
                             key));
  }
  const double seconds = SecondsSince1970(time->get());
  if (seconds < 0 || seconds > kLastSecond) {
    return Wrong(*node, fmt::format("'{}' must be a time {}", key, kTimeBounds));
  }
  *value = seconds;
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

void TomlReader::Know(std::string_view key) {
  state_->known.emplace(key);
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
  std::vector<Status> first = FinishWithAll(1);
  return first.empty() ? Status::Ok() : std::move(first.front());
}

std::vector<Status> TomlReader::FinishWithAll(size_t most) {
  Unknown unknown(most);
  CollectUnknown(state_->root, "", state_->known, &unknown);
  // With the unknown key, where that is what is wrong: a name near it takes long to find.
  std::vector<std::pair<State::Problem, std::string>> problems;
  for (const State::Problem& problem : state_->problems) problems.push_back({problem, ""});
  for (const auto& [where, key] : unknown.first()) {
    if (AnyBeginsWith(state_->known, key + ".")) {
      problems.push_back({{where, fmt::format("'{}' must be a table, as [{}]", key, key)}, ""});
    } else {
      problems.push_back({{where, fmt::format("unknown key '{}'", key)}, key});
    }
  }
  std::stable_sort(problems.begin(), problems.end(),
                   [](const auto& a, const auto& b) { return a.first.where < b.first.where; });
  const std::vector<std::string_view> names(state_->known.begin(), state_->known.end());
  std::vector<Status> all;
  for (const auto& [problem, key] : problems) {
    if (all.size() == most) break;
    const std::string nearest = key.empty() ? "" : DidYouMeanKey(key, names);
    all.push_back(TomlProblem(state_->name, problem.where, problem.what + nearest));
  }
  return all;
}

}  // namespace harmonaize
