#include "src/store/pickle_writer.h"

#include <utility>

namespace harmonaize::store {

PickleWriter::PickleWriter() : text_("\x80\x02") {}

void PickleWriter::LowestFirst(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i));
}

void PickleWriter::Number(int64_t value) {
  if (value >= 0 && value < 256) {
    text_ += 'K';
    LowestFirst(static_cast<uint64_t>(value), 1);
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    text_ += 'J';
    LowestFirst(static_cast<uint64_t>(value), 4);
  } else {
    text_ += '\x8a';
    LowestFirst(8, 1);
    LowestFirst(static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::Text(std::string_view value) {
  text_ += 'X';
  LowestFirst(value.size(), 4);
  text_ += value;
}

void PickleWriter::Global(std::string_view module, std::string_view name) {
  text_ += 'c';
  text_ += module;
  text_ += '\n';
  text_ += name;
  text_ += '\n';
}

void PickleWriter::Numbers(const std::vector<int64_t>& values) {
  Mark();
  for (const int64_t value : values) Number(value);
  Tuple();
}

std::string PickleWriter::Finish() {
  text_ += '.';
  return std::move(text_);
}

}  // namespace harmonaize::store
