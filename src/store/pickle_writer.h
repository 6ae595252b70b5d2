#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace harmonaize::store {

/// Writes pickles of Python (protocol 2: Python Enhancement Proposal 307), opcode by opcode. Each
/// call pushes a value or, as Python's own machine does, makes one of those that were pushed last.
class PickleWriter {
 public:
  PickleWriter();

  /// Push a value.
  void None() { text_ += 'N'; }
  void Flag(bool value) { text_ += value ? '\x88' : '\x89'; }
  void Number(int64_t value);
  void Text(std::string_view value);
  void EmptyTuple() { text_ += ')'; }
  void EmptyList() { text_ += ']'; }
  void EmptyDictionary() { text_ += '}'; }
  /// Pushes what `module` calls `name`.
  void Global(std::string_view module, std::string_view name);
  /// Pushes a tuple of numbers.
  void Numbers(const std::vector<int64_t>& values);

  /// Marks where the values of a tuple, a list or a dictionary begin.
  void Mark() { text_ += '('; }
  /// Makes a tuple of the values since the mark.
  void Tuple() { text_ += 't'; }
  /// Adds the values since the mark to the list before it.
  void Append() { text_ += 'e'; }
  /// Adds keys and values since the mark to the dictionary before it.
  void SetItems() { text_ += 'u'; }
  /// Calls the value before the last one with the tuple that is the last one.
  void Reduce() { text_ += 'R'; }
  /// Makes an object of the class before the last value, without calling its constructor.
  void New() { text_ += '\x81'; }
  /// Gives the object before the last value that state.
  void Build() { text_ += 'b'; }
  /// Makes of the last value what the reader has under this identity.
  void Persistent() { text_ += 'Q'; }

  /// Ends the pickle with the one value that is left, and returns it.
  std::string Finish();

 private:
  void LowestFirst(uint64_t value, int bytes);

  std::string text_;
};

}  // namespace harmonaize::store
