#include "perf/harness/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace harmonaize::perf {
namespace {

std::string Describe(const TypeInfo& type, const std::byte* element) {
  if (type.is_float) return fmt::format("{:.17g}", DecodeFloat(type, element));
  uint64_t bits = 0;
  std::memcpy(&bits, element, type.size);
  if (!type.is_signed) return fmt::format("{}", bits);
  const int unused = 64 - static_cast<int>(type.size) * 8;
  return fmt::format("{}", static_cast<int64_t>(bits << unused) >> unused);
}

// Compares one run that does not cross the end of the period.
Mismatches CompareRun(const Pattern& pattern, const std::byte* found, const std::byte* expected,
                      size_t index, size_t count, bool reduced, size_t element) {
  Mismatches result;
  const size_t size = pattern.type().size;
  if (std::memcmp(found, expected, count * size) == 0) return result;
  for (size_t i = 0; i < count; ++i) {
    const std::byte* is = found + i * size;
    const std::byte* should_be = expected + i * size;
    if (pattern.Accepts(is, should_be, index + i, reduced)) continue;
    if (result.count++ == 0) {
      result.first = fmt::format("element {} is {} and should be {}", element + i,
                                 Describe(pattern.type(), is), Describe(pattern.type(), should_be));
    }
  }
  return result;
}

Mismatches ComparePeriodic(const Pattern& pattern, const std::vector<std::byte>& period,
                           const Segment& segment, const std::byte* output) {
  Mismatches result;
  const size_t size = pattern.type().size;
  const bool reduced = segment.source == Segment::Source::kReduced;
  size_t done = 0;
  while (done < segment.count) {
    const size_t index = (segment.source_first + done) % Pattern::kPeriod;
    const size_t run = std::min(segment.count - done, Pattern::kPeriod - index);
    const size_t element = segment.output_first + done;
    result.Add(CompareRun(pattern, output + element * size, period.data() + index * size, index,
                          run, reduced, element));
    done += run;
  }
  return result;
}

Mismatches CompareUntouched(size_t size, const Segment& segment, const std::byte* output) {
  Mismatches result;
  const std::byte* begin = output + segment.output_first * size;
  for (size_t i = 0; i < segment.count; ++i) {
    const std::byte* element = begin + i * size;
    if (std::all_of(element, element + size, [](std::byte b) { return b == kPoison; })) continue;
    if (result.count++ == 0) {
      result.first = fmt::format("element {} was written, though this rank has no output there",
                                 segment.output_first + i);
    }
  }
  return result;
}

}  // namespace

void Mismatches::Add(const Mismatches& other) {
  count += other.count;
  if (first.empty()) first = other.first;
}

Mismatches CompareOutput(Pattern& pattern, const std::vector<Segment>& segments,
                         const std::byte* output) {
  Mismatches result;
  for (const Segment& segment : segments) {
    switch (segment.source) {
      case Segment::Source::kUntouched:
        result.Add(CompareUntouched(pattern.type().size, segment, output));
        break;
      case Segment::Source::kReduced:
        result.Add(ComparePeriodic(pattern, pattern.Reduced(), segment, output));
        break;
      case Segment::Source::kInput:
        result.Add(ComparePeriodic(pattern, pattern.Input(segment.source_rank), segment, output));
        break;
    }
  }
  return result;
}

Mismatches CompareInput(Pattern& pattern, int rank, size_t count, const std::byte* data) {
  Mismatches result = CompareOutput(pattern, {{Segment::Source::kInput, 0, count, rank, 0}}, data);
  if (result.count != 0) result.first = "send buffer changed: " + result.first;
  return result;
}

}  // namespace harmonaize::perf
