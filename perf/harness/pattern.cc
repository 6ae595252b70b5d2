#include "perf/harness/pattern.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace harmonaize::perf {
namespace {

// splitmix64's finaliser (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
// 2014). It mixes enough that neighbouring elements and ranks are unrelated.
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Returns a number in [-magnitude, magnitude], or in [0, magnitude].
int64_t Draw(uint64_t hash, uint64_t magnitude, bool with_sign) {
  const uint64_t choices = with_sign ? 2 * magnitude + 1 : magnitude + 1;
  const uint64_t pick = choices == 0 ? hash : hash % choices;  // 0: all 2^64
  return static_cast<int64_t>(with_sign ? pick - magnitude : pick);
}

uint64_t LargestInteger(const TypeInfo& type) {
  const uint64_t bits = type.size * 8 - (type.is_signed ? 1 : 0);
  return bits == 64 ? std::numeric_limits<uint64_t>::max() : (uint64_t{1} << bits) - 1;
}

void StoreInteger(const TypeInfo& type, int64_t value, std::byte* out) {
  std::memcpy(out, &value, type.size);  // little endian: the low bytes come first
}

}  // namespace

Pattern::Pattern(const TypeInfo& type, Operator op, int ranks, uint64_t seed, double error_bound)
    : type_(type), op_(op), ranks_(ranks), seed_(Mix(seed)), error_bound_(error_bound) {}

uint64_t Pattern::Hash(uint64_t rank, size_t index) const {
  return Mix(seed_ ^ Mix(rank * kPeriod + index));
}

bool Pattern::Contributes(int rank, size_t index, uint64_t slots) const {
  const auto ranks = static_cast<uint64_t>(ranks_);
  return ranks <= slots || (static_cast<uint64_t>(rank) + index) % ranks < slots;
}

int64_t Pattern::IntegerInput(int rank, size_t index) const {
  const uint64_t hash = Hash(static_cast<uint64_t>(rank), index);
  if (op_ == Operator::kProd) {
    // Four factors of at most 3: 81 fits into int8.
    const int64_t magnitude = Contributes(rank, index, 4) ? 1 + static_cast<int64_t>(hash % 3) : 1;
    return type_.is_signed && (hash >> 32) % 2 == 1 ? -magnitude : magnitude;
  }
  const uint64_t largest = LargestInteger(type_);
  if (op_ == Operator::kMin || op_ == Operator::kMax) return Draw(hash, largest, type_.is_signed);
  const uint64_t budget = op_ == Operator::kMulSum ? largest / 2 : largest;
  const uint64_t magnitude = std::max<uint64_t>(1, budget / static_cast<uint64_t>(ranks_));
  return Contributes(rank, index, budget) ? Draw(hash, magnitude, type_.is_signed) : 0;
}

double Pattern::FloatProductInput(int rank, size_t index) const {
  const uint64_t hash = Hash(static_cast<uint64_t>(rank), index);
  const auto slots = static_cast<uint64_t>(-type_.minimum_exponent);
  double value = (hash >> 32) % 2 == 1 ? -1.0 : 1.0;
  if (Contributes(rank, index, slots)) value = std::ldexp(value, static_cast<int>(hash % 3) - 1);
  if (static_cast<uint64_t>(rank) == index % static_cast<uint64_t>(ranks_)) value *= 1.5;
  return value;
}

double Pattern::FloatInput(int rank, size_t index) const {
  if (op_ == Operator::kProd) return FloatProductInput(rank, index);
  const uint64_t hash = Hash(static_cast<uint64_t>(rank), index);
  const uint64_t largest = uint64_t{1} << type_.significand_bits;
  if (op_ == Operator::kMin || op_ == Operator::kMax) {
    const int own_scale = static_cast<int>((hash >> 56) % 7) - 3;
    return std::ldexp(static_cast<double>(Draw(hash, largest, true)), own_scale);
  }
  const uint64_t budget = op_ == Operator::kMulSum ? largest / 2 : largest;
  if (!Contributes(rank, index, budget)) return 0;
  const uint64_t magnitude = std::max<uint64_t>(1, budget / static_cast<uint64_t>(ranks_));
  // All ranks scale an element alike, so that the sums stay exact.
  const int common_scale = static_cast<int>(Hash(~uint64_t{0}, index) % 7) - 3;
  return std::ldexp(static_cast<double>(Draw(hash, magnitude, true)), common_scale);
}

const std::vector<std::byte>& Pattern::Input(int rank) {
  std::vector<std::byte>& input = inputs_[rank];
  if (!input.empty()) return input;
  input.resize(kPeriod * type_.size);
  for (size_t index = 0; index < kPeriod; ++index) {
    std::byte* out = input.data() + index * type_.size;
    if (op_ == Operator::kNone) {
      const uint64_t hash = Hash(static_cast<uint64_t>(rank), index);
      std::memcpy(out, &hash, type_.size);
    } else if (type_.is_float) {
      EncodeFloat(type_, FloatInput(rank, index), out);
    } else {
      StoreInteger(type_, IntegerInput(rank, index), out);
    }
  }
  return input;
}

void Pattern::ReduceIntegers() {
  // Unsigned arithmetic, because sums of uint64 use the bit that int64 has for the sign.
  const auto weight = [this](int rank) {
    return op_ == Operator::kMulSum ? static_cast<uint64_t>(PreMultiplier(rank)) : uint64_t{1};
  };
  const auto less = [this](uint64_t a, uint64_t b) {
    return type_.is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
  };
  for (size_t index = 0; index < kPeriod; ++index) {
    auto result = static_cast<uint64_t>(IntegerInput(0, index)) * weight(0);
    for (int rank = 1; rank < ranks_; ++rank) {
      const auto value = static_cast<uint64_t>(IntegerInput(rank, index));
      switch (op_) {
        case Operator::kProd: result *= value; break;
        case Operator::kMin: result = less(value, result) ? value : result; break;
        case Operator::kMax: result = less(result, value) ? value : result; break;
        default: result += value * weight(rank);
      }
    }
    const auto ranks = static_cast<uint64_t>(ranks_);
    if (op_ == Operator::kAvg) {
      result = type_.is_signed ? static_cast<uint64_t>(static_cast<int64_t>(result) / ranks_)
                               : result / ranks;
    }
    StoreInteger(type_, static_cast<int64_t>(result), reduced_.data() + index * type_.size);
  }
}

void Pattern::ReduceFloats() {
  if (op_ == Operator::kAvg) tolerance_.resize(kPeriod);
  const double unit_roundoff = type_.type == ncclFloat64 ? 0x1p-53 : 0x1p-24;
  double largest = 0;
  for (size_t index = 0; index < kPeriod; ++index) {
    double result = FloatInput(0, index) * (op_ == Operator::kMulSum ? PreMultiplier(0) : 1);
    double magnitude = std::fabs(result);
    for (int rank = 1; rank < ranks_; ++rank) {
      const double value = FloatInput(rank, index);
      magnitude += std::fabs(value);
      switch (op_) {
        case Operator::kProd: result *= value; break;
        case Operator::kMin: result = std::min(result, value); break;
        case Operator::kMax: result = std::max(result, value); break;
        case Operator::kMulSum: result += value * PreMultiplier(rank); break;
        default: result += value;
      }
    }
    largest = std::max(largest, magnitude);
    if (op_ == Operator::kAvg) {
      result /= ranks_;
      tolerance_[index] =
          UnitInTheLastPlace(type_, result) / 2 + (ranks_ + 2) * unit_roundoff * magnitude / ranks_;
    }
    EncodeFloat(type_, result, reduced_.data() + index * type_.size);
    // The tolerance is measured from the rounded value, which may be half a unit away from the
    // exact one.
    if (op_ == Operator::kAvg) {
      const double rounded = DecodeFloat(type_, reduced_.data() + index * type_.size);
      tolerance_[index] += std::fabs(rounded - result);
    }
  }
  AddErrorBound(largest);
}

void Pattern::AddErrorBound(double largest) {
  const bool sums = op_ == Operator::kSum || op_ == Operator::kAvg;
  if (error_bound_ <= 0 || !sums) return;
  tolerance_.resize(kPeriod);
  const double error = error_bound_ * largest / (op_ == Operator::kAvg ? ranks_ : 1);
  for (double& tolerance : tolerance_) tolerance += error;
}

const std::vector<std::byte>& Pattern::Reduced() {
  if (reduced_.empty()) {
    reduced_.resize(kPeriod * type_.size);
    if (type_.is_float) {
      ReduceFloats();
    } else {
      ReduceIntegers();
    }
  }
  return reduced_;
}

void Pattern::Fill(int rank, size_t first, size_t count, void* out) {
  const std::vector<std::byte>& input = Input(rank);
  auto* bytes = static_cast<std::byte*>(out);
  size_t index = first % kPeriod;
  while (count > 0) {
    const size_t run = std::min(count, kPeriod - index);
    std::memcpy(bytes, input.data() + index * type_.size, run * type_.size);
    bytes += run * type_.size;
    count -= run;
    index = 0;
  }
}

bool Pattern::Accepts(const std::byte* found, const std::byte* expected, size_t index,
                      bool reduced) const {
  if (std::memcmp(found, expected, type_.size) == 0) return true;
  // Moved data must arrive bit for bit; a reduction may give either zero.
  if (!reduced || !type_.is_float) return false;
  const double difference = std::fabs(DecodeFloat(type_, found) - DecodeFloat(type_, expected));
  return difference <= (tolerance_.empty() ? 0.0 : tolerance_[index]);  // false for NaN
}

}  // namespace harmonaize::perf
