#pragma once

#include <ucp/api/ucp.h>

#include "src/base/status.h"

namespace harmonaize::transport {

/// UCX's calls, from its library, which is loaded when the first rail needs it: a daemon without
/// RDMA cards avoids UCX's signal handlers, memory hooks and threads.
struct UcxLibrary {
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_modify) config_modify;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_init_version) init_version;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_address) worker_get_address;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_worker_get_efd) worker_get_efd;
  decltype(&ucp_worker_arm) worker_arm;
  decltype(&ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close_nbx;
  decltype(&ucp_am_send_nbx) am_send_nbx;
  decltype(&ucp_am_recv_data_nbx) am_recv_data_nbx;
  decltype(&ucp_am_data_release) am_data_release;
  decltype(&ucp_request_free) request_free;
  decltype(&ucp_request_cancel) request_cancel;
  decltype(&ucp_request_check_status) request_check_status;
  decltype(&ucp_mem_map) mem_map;
  decltype(&ucp_mem_unmap) mem_unmap;
  decltype(&ucs_status_string) status_string;

  /// Loads the library at the first call, and keeps it loaded. Restores the signal handlers,
  /// because UCX's would replace the daemon's. Thread: one at the first call, any later. Errors:
  /// kUnavailable, naming the package to install.
  static Result<const UcxLibrary*> Load();
};

}  // namespace harmonaize::transport
