#include "cli/container/option_words.h"

#include <algorithm>

#include "src/base/clean_text.h"

namespace harmonaize {
namespace {

/// Longest part of a word that a message repeats, in bytes: a word may be a whole script.
constexpr size_t kMostShownBytes = 200;

/// Reads options word by word.
class OptionReader {
 public:
  OptionReader(const std::vector<std::string>& words, size_t begin, const OptionGrammar& grammar)
      : words_(words), grammar_(grammar), next_(begin) {}

  OptionWords Read() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_];
      if (word.size() < 2 || word[0] != '-' || word == "--") break;
      if (word[1] == '-') {
        ReadLong(word);
      } else {
        ReadLetters(word);
      }
    }
    result_.end = std::min(next_, words_.size());
    return std::move(result_);
  }

 private:
  void ReadLong(const std::string& word) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (equals != std::string::npos) {
      AddValue(name, equals + 1);
    } else if (IsOneOf(name, grammar_.flags)) {
      AddFlag(name);
    } else {
      AddNextWord(name);
    }
    ++next_;
  }

  void ReadLetters(const std::string& word) {
    for (size_t i = 1; i < word.size(); ++i) {
      const std::string name = {'-', word[i]};
      if (grammar_.letters.find(word[i]) != std::string_view::npos) {
        AddFlag(name);
        continue;
      }
      if (i + 1 == word.size()) {
        AddNextWord(name);
      } else {
        AddValue(name, word[i + 1] == '=' ? i + 2 : i + 1);
      }
      break;
    }
    ++next_;
  }

  void AddFlag(const std::string& name) { result_.options.push_back({name, {}, next_, 0}); }

  void AddValue(const std::string& name, size_t offset) {
    result_.options.push_back({name, {words_[next_].substr(offset)}, next_, offset});
  }

  void AddNextWord(const std::string& name) {
    ++next_;
    if (next_ < words_.size()) AddValue(name, 0);
  }

  const std::vector<std::string>& words_;
  const OptionGrammar& grammar_;
  size_t next_;
  OptionWords result_;
};

}  // namespace

bool IsOneOf(std::string_view name, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string ShownWord(std::string_view word) {
  return CleanText(word, kMostShownBytes);
}

OptionWords ReadOptionWords(const std::vector<std::string>& words, size_t begin,
                            const OptionGrammar& grammar) {
  return OptionReader(words, begin, grammar).Read();
}

bool HasOption(const std::vector<GivenOption>& options, std::span<const std::string_view> names) {
  return std::any_of(options.begin(), options.end(),
                     [names](const GivenOption& option) { return IsOneOf(option.name, names); });
}

std::string LastValue(const std::vector<GivenOption>& options,
                      std::span<const std::string_view> names) {
  std::string value;
  for (const GivenOption& option : options) {
    if (IsOneOf(option.name, names) && !option.values.empty()) value = option.values.front();
  }
  return value;
}

}  // namespace harmonaize
