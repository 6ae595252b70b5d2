#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/measure.h"
#include "src/base/status.h"

namespace toml {
inline namespace v3 {
class table;
class node;
}  // namespace v3
}  // namespace toml

namespace harmonaize {

/// The least and the most of something.
struct ValueRange {
  double least = 0;
  double most = 0;
  bool operator==(const ValueRange&) const = default;
};

/// The times that a document may have, for people: whole days whose nanoseconds since 1970 fit
/// into 64 bits with a sign.
inline constexpr std::string_view kTimeBounds = "from 1970-01-01T00:00:00Z to 2262-04-11T00:00:00Z";

/// Reads one TOML document strictly: every key must be asked for by name, with its type and range.
/// Keys left over are errors, which give file, line, column and the nearest name that was asked
/// for. Thread: one.
///
///     auto reader = TomlReader::FromFile(path);
///     reader->Integer("workers.count", 0, 1024, &count);
///     HZ_RETURN_IF_ERROR(reader->Finish());
class TomlReader {
 public:
  static Result<TomlReader> FromFile(const std::string& path);
  /// `name` stands for the file in errors.
  static Result<TomlReader> FromString(std::string_view text, std::string name);
  TomlReader(TomlReader&&) noexcept;
  TomlReader& operator=(TomlReader&&) noexcept;
  ~TomlReader();

  /// Each of these stores into `value` if the dotted key is present and valid, and otherwise does
  /// not change it. A wrong type or a value out of [least, most] is recorded, and reported by
  /// Finish.
  void Integer(std::string_view key, int64_t least, int64_t most, int64_t* value);
  void Number(std::string_view key, double least, double most, double* value);
  void Boolean(std::string_view key, bool* value);
  void String(std::string_view key, std::string* value);
  /// Accepts one of `choices`.
  void Choice(std::string_view key, std::vector<std::string_view> choices, std::string* value);
  void IntegerList(std::string_view key, int64_t least, int64_t most, std::vector<int64_t>* value);
  /// Accepts a list of strings, or one string, which stands for a list of one.
  void StringList(std::string_view key, std::vector<std::string>* value);

  /// Accepts a list of `choices`, each once, or one of them.
  void Choices(std::string_view key, const std::vector<std::string_view>& choices,
               std::vector<std::string>* value);
  /// Accepts a text with a number and a unit.
  void Measured(std::string_view key, Measure measure, double least, double most, double* value);
  /// Accepts a list of two, the smaller one first.
  void IntegerRange(std::string_view key, int64_t least, int64_t most, ValueRange* value);
  void NumberRange(std::string_view key, double least, double most, ValueRange* value);
  void MeasuredRange(std::string_view key, Measure measure, double least, double most,
                     ValueRange* value);
  /// Accepts a date and time with an offset from UTC within kTimeBounds, and stores seconds since
  /// 1970.
  void Time(std::string_view key, double* value);

  /// Returns how many tables [[key]] has. Their values are asked for as "key[0].name",
  /// "key[1].name", ...
  size_t Tables(std::string_view key);

  /// Makes the key one that a document may have, as asking for it does.
  void Know(std::string_view key);
  /// Returns whether the document has this key. That does not count as asking for it.
  bool Has(std::string_view key) const;
  /// Records, for Finish, what the caller found wrong with this key's value or, where the document
  /// lacks the key, with the table that it would be in.
  void Reject(std::string_view key, std::string what);

  /// Returns the first error by position: a wrong value, or a key that was not asked for.
  Status Finish();

  /// Returns the first `most` errors by position.
  std::vector<Status> FinishWithAll(size_t most);

 private:
  struct State;
  explicit TomlReader(State* state) : state_(state) {}
  const toml::node* Find(std::string_view key);
  void Wrong(const toml::node& node, std::string what);
  /// Stores two values of a list; `read` returns one of them, or what would be right.
  template <typename Read>
  void Range(std::string_view key, std::string_view expected, Read read, ValueRange* value);

  State* state_;
};

}  // namespace harmonaize
