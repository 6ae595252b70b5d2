#include "daemon/config/tenant_number.h"

namespace harmonaize::daemon {

// FNV-1a. The provider chooses the names, and LoadConfig refuses two that give the same number.
uint32_t NumberFromName(const std::string& name) {
  uint32_t hash = 2166136261u;
  for (const char one : name) hash = (hash ^ static_cast<uint8_t>(one)) * 16777619u;
  return kFirstGivenNumber | (hash >> 2);
}

}  // namespace harmonaize::daemon
