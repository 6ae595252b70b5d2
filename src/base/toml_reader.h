#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace toml {
inline namespace v3 {
class table;
class node;
}  // namespace v3
}  // namespace toml

namespace harmonaize {

/// Reads one TOML document strictly: every key must be asked for by name, with its type and range.
/// What is left over is an error that gives file, line, column and the nearest name that was asked
/// for. Not thread safe.
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

  /// Each stores into `value` when the dotted key is present and right, and otherwise leaves it
  /// alone. A wrong type or a value out of [least, most] is kept and told by Finish.
  void Integer(std::string_view key, int64_t least, int64_t most, int64_t* value);
  void Number(std::string_view key, double least, double most, double* value);
  void Boolean(std::string_view key, bool* value);
  void String(std::string_view key, std::string* value);
  /// One of `choices`.
  void Choice(std::string_view key, std::vector<std::string_view> choices, std::string* value);
  void IntegerList(std::string_view key, int64_t least, int64_t most, std::vector<int64_t>* value);
  /// A list of strings, or one string, which stands for a list of one.
  void StringList(std::string_view key, std::vector<std::string>* value);

  /// How many tables [[key]] has. Their values are asked for as "key[0].name", "key[1].name", ...
  size_t Tables(std::string_view key);

  /// Whether the document has this key. Asks for nothing: the key is not known by it.
  bool Has(std::string_view key) const;
  /// Keeps, for Finish, what the caller found wrong with this key's value or, where the document
  /// lacks the key, with the table that it would stand in.
  void Reject(std::string_view key, std::string what);

  /// The first error by position: what was wrong in a value, or a key that nobody asked for.
  Status Finish();

 private:
  struct State;
  explicit TomlReader(State* state) : state_(state) {}
  const toml::node* Find(std::string_view key);
  void Wrong(const toml::node& node, std::string what);

  State* state_;
};

}  // namespace harmonaize
