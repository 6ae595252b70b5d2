#pragma once

// Writes the structures of messages as JSON documents, and reads them from such. For the sources in
// this folder.

#include <algorithm>
#include <climits>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "daemon/cluster/messages/codec.h"
#include "daemon/cluster/messages/message.h"
#include "daemon/cluster/messages/message_list.h"
#include "src/base/collective.h"
#include "src/base/status.h"
#include "src/numerics/types.h"
#include "src/planner/rated_models.h"

/// Says which fields of a structure are sent, by their names: VisitFields(visitor, message) calls
/// visitor("name", message.name) for each. To be used in the structure's namespace.
#define HARMONAIZE_VISIT_FIELD(field) visitor(#field, message.field);
#define HARMONAIZE_FIELDS(Type, ...)                                               \
  template <typename Visitor, typename Message>                                    \
  requires std::same_as<std::remove_const_t<Message>, Type>                        \
  void VisitFields(Visitor& visitor, Message& message) {                           \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(HARMONAIZE_VISIT_FIELD, __VA_ARGS__)) \
  }

namespace harmonaize {
HARMONAIZE_FIELDS(EdgeRate, edge, bytes_per_second)
}  // namespace harmonaize

namespace harmonaize::daemon::fields {

using Json = nlohmann::json;

/// The number of values of an enumeration, which are counted from 0. Specialized for each
/// enumeration that is in a message.
template <typename Enum>
inline constexpr int kValueCount = 0;
template <>
inline constexpr int kValueCount<Collective> = kCollectiveCount;
template <>
inline constexpr int kValueCount<DataType> = kDataTypeCount;
template <>
inline constexpr int kValueCount<ReduceOperator> = kReduceOperatorCount;

/// Most ranks of one communicator: every rank in a message is below this.
inline constexpr int kMostRanks = 1 << 20;

inline bool InRange(int64_t value, int64_t end) {
  return value >= 0 && value < end;
}

inline bool AllBelow(const std::vector<int>& values, int end) {
  return std::all_of(values.begin(), values.end(), [end](int one) { return InRange(one, end); });
}

inline bool AllDifferent(std::vector<int> values) {
  std::sort(values.begin(), values.end());
  return std::adjacent_find(values.begin(), values.end()) == values.end();
}

inline bool IsAmount(double value) {
  return std::isfinite(value) && value >= 0;
}

/// Returns whether all elements of a list are sound by their IsSound.
template <typename Element>
bool AllSound(const std::vector<Element>& list) {
  return std::all_of(list.begin(), list.end(), [](const Element& one) { return IsSound(one); });
}

/// Returns whether the edges of `rates` rise, and each carries something.
inline bool AreSoundRates(const EdgeRates& rates) {
  const bool each = std::all_of(rates.begin(), rates.end(), [](const EdgeRate& one) {
    return one.edge >= 0 && IsAmount(one.bytes_per_second) && one.bytes_per_second > 0;
  });
  const auto not_before = [](const EdgeRate& a, const EdgeRate& b) { return a.edge >= b.edge; };
  return each && std::adjacent_find(rates.begin(), rates.end(), not_before) == rates.end();
}

// ---------------------------------------------------------------------------------------------
// Writing

template <typename T>
Json Write(const T& value);
template <typename T>
Json Write(const std::vector<T>& list);
Json Write(const Status& status);

class Writer {
 public:
  explicit Writer(Json* document) : document_(document) {}
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*document_)[name] = Write(*value);
  }
  template <typename T>
  void operator()(const char* name, const T& value) {
    (*document_)[name] = Write(value);
  }

 private:
  Json* const document_;
};

template <typename T>
Json Write(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<int>(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else {
    Json document = Json::object();
    Writer writer(&document);
    VisitFields(writer, value);
    return document;
  }
}
template <typename T>
Json Write(const std::vector<T>& list) {
  Json document = Json::array();
  for (const T& one : list) document.push_back(Write(one));
  return document;
}

// ---------------------------------------------------------------------------------------------
// Reading

/// Reads the fields of one structure. After the first field that is missing or wrong, `problem`
/// names it and nothing more is read.
class Reader {
 public:
  explicit Reader(const Json& document) : document_(document) {}

  /// Reads a field that daemons of an earlier release do not send.
  template <typename T>
  void operator()(const char* name, std::optional<T>& value) {
    value.reset();
    if (problem_.empty() && document_.contains(name)) (*this)(name, value.emplace());
  }

  template <typename T>
  void operator()(const char* name, T& value) {
    if (!problem_.empty()) return;
    const auto found = document_.find(name);
    if (found == document_.end()) {
      problem_ = std::string("field '") + name + "' is missing";
    } else if (!Read(*found, &value)) {
      problem_ = std::string("field '") + name + "' is wrong";
    }
  }
  /// The problem; "" if there is none.
  const std::string& problem() const { return problem_; }

  /// Returns whether the value is of the type's kind and in its range: a number never becomes
  /// another one.
  template <typename T>
  static bool Read(const Json& value, T* out) {
    if constexpr (std::is_enum_v<T>) {
      static_assert(kValueCount<T> > 0);
      int number = 0;
      if (!Read(value, &number) || !InRange(number, kValueCount<T>)) return false;
      *out = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!value.is_boolean()) return false;
      *out = value.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!value.is_number_integer()) return false;
      const bool fits = value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>())
                                                   : std::in_range<T>(value.get<int64_t>());
      if (!fits) return false;
      *out = value.is_number_unsigned() ? static_cast<T>(value.get<uint64_t>())
                                        : static_cast<T>(value.get<int64_t>());
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!value.is_number()) return false;
      *out = value.get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!value.is_string()) return false;
      *out = value.get_ref<const std::string&>();
    } else {
      if (!value.is_object()) return false;
      Reader reader(value);
      VisitFields(reader, *out);
      return reader.problem().empty();
    }
    return true;
  }
  template <typename T>
  static bool Read(const Json& value, std::vector<T>* out) {
    if (!value.is_array()) return false;
    out->clear();
    for (const Json& one : value) {
      if (!Read(one, &out->emplace_back())) return false;
    }
    return true;
  }
  static bool Read(const Json& value, Status* out);

 private:
  const Json& document_;
  std::string problem_;
};

/// Reads a message of one kind. Its IsSound, if it has one, checks that all numbers that count or
/// name something can do so, and that lists fit each other. Returns kRemoteError with the field
/// that is missing or wrong.
template <typename Message>
Status ReadMessage(const Json& document, Message* message) {
  if (!document.is_object()) return RemoteError("it is no list of fields");
  Reader reader(document);
  VisitFields(reader, *message);
  if (!reader.problem().empty()) return RemoteError("{}", reader.problem());
  if constexpr (requires { IsSound(*message); }) {
    if (!IsSound(*message)) return RemoteError("a field is out of range");
  }
  return Status::Ok();
}

/// Reads the message of a list that is of this kind; nullopt if none is. Errors: those of
/// ReadMessage.
template <typename... Messages>
std::optional<Result<ClusterMessage>> ReadOneOf(uint64_t kind, const Json& document) {
  std::optional<Result<ClusterMessage>> read;
  const auto read_if = [&]<typename Message>(std::type_identity<Message>) {
    if (kind != static_cast<uint64_t>(Message::kKind)) return false;
    Message message{};
    Status status = ReadMessage(document, &message);
    if (status.ok()) {
      read.emplace(std::move(message));
    } else {
      read.emplace(std::move(status));
    }
    return true;
  };
  static_cast<void>((read_if(std::type_identity<Messages>()) || ...));
  return read;
}

template <typename... Messages>
bool WriteOneOf(const ClusterMessage& message, Json* document) {
  return message.Dispatch([document](const Messages& one) { *document = Write(one); }...);
}

template <typename... Messages>
std::optional<uint64_t> CommunicatorOfOne(const ClusterMessage& message) {
  std::optional<uint64_t> key;
  message.Dispatch([&](const Messages& one) {
    if constexpr (requires { one.communicator; }) key = one.communicator;
  }...);
  return key;
}

template <typename... Messages>
constexpr SubjectCodec CodecOf(MessageList<Messages...>) {
  return {.read = ReadOneOf<Messages...>,
          .write = WriteOneOf<Messages...>,
          .communicator = CommunicatorOfOne<Messages...>};
}

}  // namespace harmonaize::daemon::fields
