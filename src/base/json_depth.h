#pragma once

#include <string_view>

namespace harmonaize {

/// Returns how deep a document of JSON nests; for a text that is no JSON, any number that is no
/// less than the depth to which a reader would come. Readers call themselves for each level, so
/// they look at this first.
int JsonDepth(std::string_view text);

}  // namespace harmonaize
