// Parameters: what a program can learn about the variables that steer this library.

#include "shim/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#include "include/nccl.h"
#include "shim/face.h"
#include "shim/fallback.h"
#include "src/base/settings.h"
#include "src/base/status.h"

namespace harmonaize::shim {
namespace {

constexpr auto kParameterNames = std::to_array<const char*>({
    "HARMONAIZE_CUDA",
    "HARMONAIZE_DAEMON_TIMEOUT",
    "HARMONAIZE_DLOPEN",
    "HARMONAIZE_FALLBACK",
    "HARMONAIZE_HUGE_PAGES",
    "HARMONAIZE_INLINE",
    "HARMONAIZE_JOB",
    "HARMONAIZE_JOB_KIND",
    "HARMONAIZE_NCCL_LIBRARY",
    "HARMONAIZE_PROTOCOL",
    "HARMONAIZE_REQUIREMENTS",
    "HARMONAIZE_SOCKET",
    "HARMONAIZE_WRITER",
    "NCCL_COMM_ID",
    "NCCL_CONF_FILE",
    "NCCL_DEBUG",
    "NCCL_DEBUG_FILE",
    "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_TIMESTAMP_FORMAT",
    "NCCL_DEBUG_TIMESTAMP_LEVELS",
});

/// Variables that may not stand in a configuration file.
bool OnlyInEnvironment(std::string_view name) {
  return name == "HARMONAIZE_SOCKET" || name == "NCCL_CONF_FILE";
}

/// Returns the value of a parameter, "" where it is not set.
std::string ValueOf(const char* name) {
  const char* const value = OnlyInEnvironment(name) ? secure_getenv(name) : Setting(name);
  return value != nullptr ? value : "";
}

Result<const char*> NameBehind(ncclParamHandle_t handle) {
  const auto* const place = reinterpret_cast<const char* const*>(handle);
  for (const char* const& name : kParameterNames) {
    if (&name == place) return name;
  }
  return InvalidArgument("h is not from ncclParamBind");
}

Status BindParameter(const char* key, ncclParamHandle_t* out) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "out"));
  HZ_RETURN_IF_ERROR(CheckPointer(key, "key"));
  *out = nullptr;
  const char* const* const place = FindParameter(key);
  if (place == nullptr) {
    return InvalidArgument(
        "Harmonaize reads no variable {}: ncclParamGetAllParameterKeys lists those that it reads",
        key);
  }
  *out = reinterpret_cast<ncclParamHandle_t>(const_cast<const char**>(place));
  return Status::Ok();
}

template <typename Integer>
Status ReadInteger(ncclParamHandle_t handle, Integer* out) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "out"));
  HZ_ASSIGN_OR_RETURN(const char* const name, NameBehind(handle));
  const std::string text = ValueOf(name);
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("{} is '{}', not a whole number from {} to {}", name, text,
                           +std::numeric_limits<Integer>::min(),
                           +std::numeric_limits<Integer>::max());
  }
  *out = value;
  return Status::Ok();
}

Status ReadText(ncclParamHandle_t handle, const char** out) {
  // NCCL's contract: the text lasts until this thread asks again.
  thread_local std::string text;
  HZ_RETURN_IF_ERROR(CheckPointer(out, "out"));
  HZ_ASSIGN_OR_RETURN(const char* const name, NameBehind(handle));
  text = ValueOf(name);
  *out = text.c_str();
  return Status::Ok();
}

Status CopyText(ncclParamHandle_t handle, void* out, int most, int* length) {
  HZ_RETURN_IF_ERROR(CheckPointer(out, "out"));
  HZ_RETURN_IF_ERROR(CheckPointer(length, "len"));
  *length = 0;
  HZ_ASSIGN_OR_RETURN(const char* const name, NameBehind(handle));
  const std::string text = ValueOf(name);
  if (most < 0 || text.size() >= static_cast<size_t>(most)) {
    return InvalidArgument("maxLen is {}, less than the {} bytes of {}", most, text.size() + 1,
                           name);
  }
  std::memcpy(out, text.c_str(), text.size() + 1);
  *length = static_cast<int>(text.size() + 1);
  return Status::Ok();
}

Status ReadByName(const char* key, const char** value, int* length) {
  thread_local std::string text;
  HZ_RETURN_IF_ERROR(CheckPointer(value, "value"));
  HZ_RETURN_IF_ERROR(CheckPointer(length, "valueLen"));
  *value = nullptr;
  *length = 0;
  ncclParamHandle_t handle = nullptr;
  HZ_RETURN_IF_ERROR(BindParameter(key, &handle));
  HZ_ASSIGN_OR_RETURN(const char* const name, NameBehind(handle));
  text = ValueOf(name);
  *value = text.c_str();
  *length = static_cast<int>(text.size());
  return Status::Ok();
}

Status ListNames(const char*** table, int* length) {
  // The caller gets a table of its own, because it could write into it.
  thread_local std::array<const char*, kParameterNames.size()> names;
  HZ_RETURN_IF_ERROR(CheckPointer(table, "table"));
  HZ_RETURN_IF_ERROR(CheckPointer(length, "tableLen"));
  names = kParameterNames;
  *table = names.data();
  *length = static_cast<int>(names.size());
  return Status::Ok();
}

Status PrintParameters() {
  for (const char* const name : kParameterNames) {
    std::printf("%s=%s\n", name, ValueOf(name).c_str());
  }
  std::fflush(stdout);
  return Status::Ok();
}

}  // namespace

std::span<const char* const> ParameterNames() {
  return kParameterNames;
}

const char* const* FindParameter(std::string_view name) {
  const auto found = std::find(kParameterNames.begin(), kParameterNames.end(), name);
  return found != kParameterNames.end() ? &*found : nullptr;
}

}  // namespace harmonaize::shim

using namespace harmonaize::shim;  // NOLINT(google-build-using-namespace)

HZ_NCCL_API(ncclResult_t, ncclParamBind, ncclParamHandle_t* out, const char* key) {
  HZ_FORWARD(ncclParamBind, out, key);
  return Call("ncclParamBind", nullptr, [&] { return BindParameter(key, out); });
}

#define HZ_PARAMETER_READER(suffix, type)                                              \
  HZ_NCCL_API(ncclResult_t, ncclParamGet##suffix, ncclParamHandle_t h, type* out) {    \
    HZ_FORWARD(ncclParamGet##suffix, h, out);                                          \
    return Call("ncclParamGet" #suffix, nullptr, [&] { return ReadInteger(h, out); }); \
  }
HZ_PARAMETER_READER(I8, int8_t)
HZ_PARAMETER_READER(I16, int16_t)
HZ_PARAMETER_READER(I32, int32_t)
HZ_PARAMETER_READER(I64, int64_t)
HZ_PARAMETER_READER(U8, uint8_t)
HZ_PARAMETER_READER(U16, uint16_t)
HZ_PARAMETER_READER(U32, uint32_t)
HZ_PARAMETER_READER(U64, uint64_t)
#undef HZ_PARAMETER_READER

HZ_NCCL_API(ncclResult_t, ncclParamGetStr, ncclParamHandle_t h, const char** out) {
  HZ_FORWARD(ncclParamGetStr, h, out);
  return Call("ncclParamGetStr", nullptr, [&] { return ReadText(h, out); });
}

HZ_NCCL_API(ncclResult_t, ncclParamGet, ncclParamHandle_t h, void* out, int maxLen, int* len) {
  HZ_FORWARD(ncclParamGet, h, out, maxLen, len);
  return Call("ncclParamGet", nullptr, [&] { return CopyText(h, out, maxLen, len); });
}

HZ_NCCL_API(ncclResult_t, ncclParamGetParameter, const char* key, const char** value,
            int* valueLen) {
  HZ_FORWARD(ncclParamGetParameter, key, value, valueLen);
  return Call("ncclParamGetParameter", nullptr, [&] { return ReadByName(key, value, valueLen); });
}

HZ_NCCL_API(ncclResult_t, ncclParamGetAllParameterKeys, const char*** table, int* tableLen) {
  HZ_FORWARD(ncclParamGetAllParameterKeys, table, tableLen);
  return Call("ncclParamGetAllParameterKeys", nullptr, [&] { return ListNames(table, tableLen); });
}

HZ_NCCL_API(void, ncclParamDumpAll) {
  HZ_FORWARD(ncclParamDumpAll);
  Call("ncclParamDumpAll", nullptr, [] { return PrintParameters(); });
}
