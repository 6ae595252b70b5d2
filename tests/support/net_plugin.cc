#include "tests/support/net_plugin.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "plugins/nccl-net/net_abi.h"

namespace harmonaize::testing {
namespace {

using namespace nccl_abi;  // NOLINT(google-build-using-namespace)

std::mutex log_mutex;
std::string log_text;

void Log(LogLevel, unsigned long, const char*, int, const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  const std::lock_guard lock(log_mutex);
  log_text += line;
  log_text += '\n';
}

template <typename Properties>
NetProperties CommonOf(const Properties& from) {
  return {.name = from.name,
          .ptr_support = from.ptr_support,
          .reg_is_global = from.reg_is_global,
          .speed = from.speed,
          .max_comms = from.max_comms,
          .max_recvs = from.max_recvs,
          .device_type = from.net_device_type};
}

template <typename Properties>
NetProperties Since9(const Properties& from) {
  NetProperties properties = CommonOf(from);
  properties.max_p2p_bytes = from.max_p2p_bytes;
  properties.virtual_devices = from.virtual_device.device_count;
  return properties;
}

NetProperties Converted(const NetPropertiesV8& from) {
  return CommonOf(from);
}
NetProperties Converted(const NetPropertiesV9& from) {
  return Since9(from);
}
NetProperties Converted(const NetPropertiesV11& from) {
  return Since9(from);
}
NetProperties Converted(const NetPropertiesV12& from) {
  NetProperties properties = Since9(from);
  properties.rail = from.rail_id;
  return properties;
}

template <typename Properties, typename Table>
void BindCommon(const Table* table, NetPlugin* plugin) {
  plugin->name = table->name;
  plugin->devices = table->devices;
  plugin->properties = [table](int device, NetProperties* properties) {
    Properties filled{};
    const ncclResult_t result = table->get_properties(device, &filled);
    if (result == ncclSuccess) *properties = Converted(filled);
    return result;
  };
  plugin->accept = [table](void* listen, void** receive) {
    return table->accept(listen, receive, nullptr);
  };
  plugin->reg_mr = table->reg_mr;
  plugin->reg_mr_dma_buf = table->reg_mr_dma_buf;
  plugin->dereg_mr = table->dereg_mr;
  plugin->iflush = table->iflush;
  plugin->test = table->test;
  plugin->close_send = table->close_send;
  plugin->close_recv = table->close_recv;
  plugin->close_listen = table->close_listen;
  plugin->get_device_mr = table->get_device_mr;
  plugin->irecv_consumed = table->irecv_consumed;
}

template <typename Table>
void BindWithEvents(const Table* table, NetPlugin* plugin) {
  plugin->isend = [table](void* comm, void* data, size_t bytes, int tag, void* registration,
                          void** request) {
    return table->isend(comm, data, bytes, tag, registration, nullptr, request);
  };
  plugin->irecv = [table](void* comm, int count, void** data, size_t* bytes, int* tags,
                          void** registrations, void** request) {
    return table->irecv(comm, count, data, bytes, tags, registrations, nullptr, request);
  };
}

void Bind(const NetV8* table, NetPlugin* plugin) {
  BindCommon<NetPropertiesV8>(table, plugin);
  plugin->init = [table] { return table->init(Log); };
  plugin->listen = table->listen;
  plugin->connect = [table](int device, void* handle, void** send) {
    return table->connect(device, handle, send, nullptr);
  };
  plugin->isend = [table](void* comm, void* data, size_t bytes, int tag, void* registration,
                          void** request) {
    return table->isend(comm, data, static_cast<int>(bytes), tag, registration, request);
  };
  plugin->irecv = [table](void* comm, int count, void** data, size_t* bytes, int* tags,
                          void** registrations, void** request) {
    std::vector<int> sizes(bytes, bytes + (bytes == nullptr ? 0 : std::max(count, 0)));
    return table->irecv(comm, count, data, bytes == nullptr ? nullptr : sizes.data(), tags,
                        registrations, request);
  };
}

void Bind(const NetV9* table, NetPlugin* plugin) {
  BindCommon<NetPropertiesV9>(table, plugin);
  plugin->init = [table] { return table->init(Log); };
  plugin->listen = table->listen;
  plugin->connect = [table](int device, void* handle, void** send) {
    return table->connect(device, handle, send, nullptr);
  };
  plugin->isend = table->isend;
  plugin->irecv = table->irecv;
  plugin->make_virtual_device = [table] {
    int device = -1;
    NetVirtualDeviceV9 members{};
    return table->make_virtual_device(&device, &members);
  };
}

void Bind(const NetV10* table, NetPlugin* plugin) {
  BindCommon<NetPropertiesV9>(table, plugin);
  BindWithEvents(table, plugin);
  plugin->init = [table] { return table->init(Log, nullptr); };
  plugin->listen = table->listen;
  plugin->connect = [table](int device, void* handle, void** send) {
    NetCommConfig config{-1};
    return table->connect(device, &config, handle, send, nullptr);
  };
  plugin->make_virtual_device = [table] {
    int device = -1;
    NetVirtualDeviceV9 members{};
    return table->make_virtual_device(&device, &members);
  };
}

template <typename Properties, typename Members>
void Bind(const NetWithContext<Properties, Members>* table, NetPlugin* plugin) {
  BindCommon<Properties>(table, plugin);
  BindWithEvents(table, plugin);
  // The object is moved, so its calls share the context by a pointer of their own.
  auto context = std::make_shared<void*>(nullptr);
  plugin->init = [table, context] {
    NetCommConfig config{-1};
    return table->init(context.get(), 4711, &config, Log, nullptr);
  };
  plugin->finalize = [table, context] { return table->finalize(*context); };
  plugin->listen = [table, context](int device, void* handle, void** listen) {
    return table->listen(*context, device, handle, listen);
  };
  plugin->connect = [table, context](int device, void* handle, void** send) {
    return table->connect(*context, device, handle, send, nullptr);
  };
  plugin->make_virtual_device = [table] {
    int device = -1;
    Members members{};
    return table->make_virtual_device(&device, &members);
  };
  plugin->set_attributes = [table, context] {
    return table->set_net_attributes(*context, nullptr);
  };
}

template <typename Table>
void BindSymbol(void* library, const char* symbol, NetPlugin* plugin) {
  const auto* const table = static_cast<const Table*>(dlsym(library, symbol));
  ASSERT_NE(table, nullptr) << symbol;
  Bind(table, plugin);
}

}  // namespace

const std::vector<int>& NetPlugin::Versions() {
  static const std::vector<int> versions = {8, 9, 10, 11, 12};
  return versions;
}

NetPlugin NetPlugin::Load(int version) {
  NetPlugin plugin;
  const std::string path = std::string(HARMONAIZE_PLUGIN_FOLDER) + "/libnccl-net-harmonaize.so";
  plugin.library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(plugin.library_, nullptr) << dlerror();
  if (plugin.library_ == nullptr) return plugin;
  switch (version) {
    case 8: BindSymbol<NetV8>(plugin.library_, "ncclNetPlugin_v8", &plugin); break;
    case 9: BindSymbol<NetV9>(plugin.library_, "ncclNetPlugin_v9", &plugin); break;
    case 10: BindSymbol<NetV10>(plugin.library_, "ncclNetPlugin_v10", &plugin); break;
    case 11: BindSymbol<NetV11>(plugin.library_, "ncclNetPlugin_v11", &plugin); break;
    case 12: BindSymbol<NetV12>(plugin.library_, "ncclNetPlugin_v12", &plugin); break;
    default: ADD_FAILURE() << "no version " << version;
  }
  return plugin;
}

NetPlugin NetPlugin::Of(const NetV12* table) {
  NetPlugin plugin;
  Bind(table, &plugin);
  return plugin;
}

void NetPlugin::Unload() {
  if (library_ != nullptr) dlclose(library_);
  library_ = nullptr;
}

std::string NetLog() {
  const std::lock_guard lock(log_mutex);
  return log_text;
}

void ClearNetLog() {
  const std::lock_guard lock(log_mutex);
  log_text.clear();
}

}  // namespace harmonaize::testing
