// The shim's plugin with every function of the interface, as JAX expects: those that it
// lacks say that they are not implemented. For benchmarks beside JAX only.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

// As in cpu_plugin.cc, which frees it.
struct PJRT_Error {
  int code;
  std::string message;
};
struct PJRT_ExecuteContext {};  // the shim's programs need none

namespace {

PJRT_Error* Missing(void*) { return new PJRT_Error{12, "not in the shim"}; }

PJRT_Client_Create* create;

// A process of its own shares nothing, and JAX's store lacks a function of the shim's.
PJRT_Error* Create(PJRT_Client_Create_Args* a) {
  a->kv_get_callback = nullptr;
  a->kv_put_callback = nullptr;
  a->kv_try_get_callback = nullptr;
  return create(a);
}

PJRT_Error* CreateContext(PJRT_ExecuteContext_Create_Args* a) {
  a->context = new PJRT_ExecuteContext;
  return nullptr;
}

PJRT_Error* DestroyContext(PJRT_ExecuteContext_Destroy_Args* a) {
  delete a->context;
  return nullptr;
}

PJRT_Error* AddData(PJRT_FFI_UserData_Add_Args*) { return nullptr; }

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* made = [] {
    void* shim = dlopen(SHIM, RTLD_NOW | RTLD_LOCAL);
    if (shim == nullptr) std::abort();
    auto get = reinterpret_cast<const PJRT_Api* (*)()>(dlsym(shim, "GetPjrtApi"));
    // Newer versions of JAX look for functions behind the end of the table.
    constexpr size_t kWords = sizeof(PJRT_Api) / sizeof(void*) + 64;
    void** table = new void*[kWords]();
    std::memcpy(table, get(), sizeof(PJRT_Api));
    auto* api = reinterpret_cast<PJRT_Api*>(table);
    void** first = reinterpret_cast<void**>(&api->PJRT_Error_Destroy);
    for (void** f = first; f < table + kWords; ++f)
      if (*f == nullptr) *f = reinterpret_cast<void*>(Missing);
    create = api->PJRT_Client_Create;
    api->PJRT_Client_Create = Create;
    api->PJRT_ExecuteContext_Create = CreateContext;
    api->PJRT_ExecuteContext_Destroy = DestroyContext;
    static PJRT_FFI_Extension ffi =
        *reinterpret_cast<PJRT_FFI_Extension*>(api->extension_start);
    ffi.user_data_add = AddData;
    api->extension_start = &ffi.base;
    return api;
  }();
  return made;
}
