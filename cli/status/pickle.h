#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace harmonaize {

/// Returns a value as Python's pickle.load reads it (protocol 2, Python 2.3 and later): objects as
/// dict, arrays as list, texts as str, whole numbers as int. Texts are UTF-8 already.
std::string Pickle(const nlohmann::ordered_json& value);

}  // namespace harmonaize
