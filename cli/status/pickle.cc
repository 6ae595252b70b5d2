#include "cli/status/pickle.h"

#include <bit>
#include <cstdint>
#include <string_view>

namespace harmonaize {
namespace {

using nlohmann::ordered_json;

// Opcodes of pickle, protocol 2 (Python Enhancement Proposal 307; Lib/pickletools.py lists them).
constexpr std::string_view kProtocol = "\x80\x02";
constexpr char kStop = '.';
constexpr char kMark = '(';
constexpr char kNone = 'N';
constexpr char kTrue = '\x88';
constexpr char kFalse = '\x89';
constexpr char kLong1 = '\x8a';    // a byte with the length, then so many bytes, the lowest first
constexpr char kBinFloat = 'G';    // eight bytes, the highest first
constexpr char kBinUnicode = 'X';  // four bytes with the length, the lowest first, then the text
constexpr char kEmptyList = ']';
constexpr char kAppends = 'e';
constexpr char kEmptyDict = '}';
constexpr char kSetItems = 'u';

void AppendLowestFirst(uint64_t number, int bytes, std::string* text) {
  for (int i = 0; i < bytes; ++i) text->push_back(static_cast<char>(number >> (8 * i)));
}

void AppendText(std::string_view value, std::string* text) {
  text->push_back(kBinUnicode);
  AppendLowestFirst(value.size(), 4, text);
  text->append(value);
}

// A ninth byte keeps the largest unsigned numbers positive.
void AppendNumber(const ordered_json& value, std::string* text) {
  text->push_back(kLong1);
  text->push_back(9);
  const bool negative = !value.is_number_unsigned() && value.get<int64_t>() < 0;
  AppendLowestFirst(value.is_number_unsigned() ? value.get<uint64_t>()
                                               : static_cast<uint64_t>(value.get<int64_t>()),
                    8, text);
  text->push_back(negative ? '\xff' : '\0');
}

void AppendReal(double value, std::string* text) {
  const auto bits = std::bit_cast<uint64_t>(value);
  text->push_back(kBinFloat);
  for (int i = 7; i >= 0; --i) text->push_back(static_cast<char>(bits >> (8 * i)));
}

void Append(const ordered_json& value, std::string* text) {
  switch (value.type()) {
    case ordered_json::value_t::object:
      *text += {kEmptyDict, kMark};
      for (const auto& [key, one] : value.items()) {
        AppendText(key, text);
        Append(one, text);
      }
      text->push_back(kSetItems);
      return;
    case ordered_json::value_t::array:
      *text += {kEmptyList, kMark};
      for (const ordered_json& one : value) Append(one, text);
      text->push_back(kAppends);
      return;
    case ordered_json::value_t::string:
      return AppendText(value.get_ref<const std::string&>(), text);
    case ordered_json::value_t::boolean: return text->push_back(value.get<bool>() ? kTrue : kFalse);
    case ordered_json::value_t::number_integer:
    case ordered_json::value_t::number_unsigned: return AppendNumber(value, text);
    case ordered_json::value_t::number_float: return AppendReal(value.get<double>(), text);
    default: text->push_back(kNone);
  }
}

}  // namespace

std::string Pickle(const ordered_json& value) {
  std::string text(kProtocol);
  Append(value, &text);
  text.push_back(kStop);
  return text;
}

}  // namespace harmonaize
