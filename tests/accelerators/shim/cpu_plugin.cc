// A PJRT plugin over XLA's client for CPUs, as the tensorflow-cpu wheel exports it.
// For tests only: it is built on the machine that runs them (see __init__.py).
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "xla/ffi/api/c_api.h"
#include "xla/hlo/builder/xla_computation.h"
#include "xla/hlo/ir/hlo_module.h"
#include "xla/literal.h"
#include "xla/pjrt/c/pjrt_c_api.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"
#include "xla/pjrt/distributed/key_value_store_interface.h"
#include "xla/pjrt/distributed/protocol.pb.h"
#include "xla/pjrt/distributed/topology_util.h"
#include "xla/pjrt/pjrt_client.h"
#include "xla/pjrt/pjrt_executable.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_client_options.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology.h"
#include "xla/pjrt/plugin/xla_cpu/cpu_topology_description.h"
#include "xla/pjrt/plugin/xla_cpu/xla_cpu_pjrt_client.h"
#include "xla/pjrt/proto/compile_options.pb.h"
#include "xla/shape_util.h"

#include "collectives.h"

namespace xla {
absl::Status ParseMlirModuleStringAndConvertToXlaComputation(absl::string_view,
                                                             XlaComputation&, bool,
                                                             bool);
namespace ffi {
const XLA_FFI_Api* GetXlaFfiApi();
}
}

// ---- The handles of the interface.

struct PJRT_Error {
  absl::StatusCode code;
  std::string message;
};
struct PJRT_Event {
  xla::Future<> future;
};
struct PJRT_Memory {
  xla::PjRtMemorySpace* space;
  std::vector<PJRT_Device*> devices;
};
struct PJRT_DeviceDescription {
  xla::PjRtDevice* device;
  std::string kind, text;
  PJRT_NamedValue attribute;
};
struct PJRT_Device {
  xla::PjRtDevice* device;
  PJRT_DeviceDescription description;
  std::vector<PJRT_Memory*> memories;
  PJRT_Memory* standard;
};
struct PJRT_Client {
  std::unique_ptr<xla::PjRtClient> client;
  std::string name, version;
  std::vector<std::unique_ptr<PJRT_Device>> owned_devices;
  std::vector<std::unique_ptr<PJRT_Memory>> owned_memories;
  std::vector<PJRT_Device*> devices, addressable;
  std::vector<PJRT_Memory*> memories;

  PJRT_Device* Find(const xla::PjRtDevice* device) {
    for (PJRT_Device* d : devices)
      if (d->device == device) return d;
    return nullptr;
  }
  PJRT_Memory* Find(const xla::PjRtMemorySpace* space) {
    for (PJRT_Memory* m : memories)
      if (m->space == space) return m;
    return nullptr;
  }
};
struct PJRT_LoadedExecutable {
  std::shared_ptr<xla::PjRtLoadedExecutable> executable;
  PJRT_Client* client;
  std::vector<PJRT_Device*> devices;
  size_t parameters;
};
struct PJRT_Executable {
  std::shared_ptr<xla::PjRtLoadedExecutable> executable;
  std::string name, optimized, fingerprint;
  std::vector<PJRT_Buffer_Type> types;
  std::vector<int64_t> dims;
  std::vector<size_t> ranks;
  std::vector<std::string> cost_names;
  std::vector<PJRT_NamedValue> costs;
  std::vector<const char*> kinds;
  std::vector<size_t> kind_sizes;
};
struct PJRT_Buffer {
  std::unique_ptr<xla::PjRtBuffer> buffer;
  PJRT_Client* client;
  std::vector<int64_t> dims;
  std::vector<std::unique_ptr<xla::PjRtBuffer::ExternalReference>> references;
};
struct PJRT_SerializedExecutable {
  std::string data;
};
struct PJRT_DeviceAssignmentSerialized {
  std::string data;
};

namespace {

PJRT_Error* Made(const absl::Status& status) {
  return new PJRT_Error{status.code(), std::string(status.message())};
}

PJRT_Error* TooSmall(const char* name, size_t expected, size_t given) {
  return new PJRT_Error{absl::StatusCode::kInvalidArgument,
                        std::string("Unexpected ") + name + " size: expected " +
                            std::to_string(expected) + ", got " +
                            std::to_string(given) +
                            ". Check installed software versions."};
}

#define SIZED(type, args)                              \
  if ((args)->struct_size < type##_STRUCT_SIZE)        \
    return TooSmall(#type, type##_STRUCT_SIZE, (args)->struct_size)
#define CHECKED(expression) \
  if (absl::Status status = (expression); !status.ok()) return Made(status)
#define ASSIGNED(name, expression)                     \
  auto name##_or = (expression);                       \
  if (!name##_or.ok()) return Made(name##_or.status()); \
  auto name = std::move(name##_or).value()
// A function of the interface: its body uses `a`, the arguments.
#define FUNCTION(name)                              \
  PJRT_Error* Do_##name(PJRT_##name##_Args* a);     \
  PJRT_Error* name(PJRT_##name##_Args* a) {         \
    SIZED(PJRT_##name##_Args, a);                   \
    return Do_##name(a);                            \
  }                                                 \
  PJRT_Error* Do_##name([[maybe_unused]] PJRT_##name##_Args* a)

#define ELEMENT_TYPES(X)                                                            \
  X(PRED) X(S2) X(S4) X(S8) X(S16) X(S32) X(S64) X(U2) X(U4) X(U8) X(U16) X(U32)    \
  X(U64) X(F16) X(F32) X(F64) X(BF16) X(C64) X(C128) X(F8E5M2) X(F8E4M3FN)          \
  X(F8E4M3B11FNUZ) X(F8E5M2FNUZ) X(F8E4M3FNUZ) X(F8E4M3) X(F8E3M4) X(F8E8M0FNU)     \
  X(F4E2M1FN)

xla::PrimitiveType ToXla(PJRT_Buffer_Type type) {
#define CASE(n) if (type == PJRT_Buffer_Type_##n) return xla::n;
  ELEMENT_TYPES(CASE)
#undef CASE
  return xla::PRIMITIVE_TYPE_INVALID;
}
PJRT_Buffer_Type FromXla(xla::PrimitiveType type) {
#define CASE(n) if (type == xla::n) return PJRT_Buffer_Type_##n;
  ELEMENT_TYPES(CASE)
  CASE(TOKEN)
#undef CASE
  return PJRT_Buffer_Type_INVALID;
}

PJRT_Buffer* Wrapped(std::unique_ptr<xla::PjRtBuffer> buffer, PJRT_Client* client) {
  return new PJRT_Buffer{std::move(buffer), client};
}

// ---- Errors, the plugin, events.

void Error_Destroy(PJRT_Error_Destroy_Args* a) { delete a->error; }
void Error_Message(PJRT_Error_Message_Args* a) {
  a->message = a->error->message.data();
  a->message_size = a->error->message.size();
}
FUNCTION(Error_GetCode) {
  a->code = static_cast<PJRT_Error_Code>(a->error->code);
  return nullptr;
}
FUNCTION(Plugin_Initialize) { return nullptr; }
FUNCTION(Plugin_Attributes) {
  a->attributes = nullptr;
  a->num_attributes = 0;
  return nullptr;
}
FUNCTION(Event_Destroy) {
  delete a->event;
  return nullptr;
}
FUNCTION(Event_IsReady) {
  a->is_ready = a->event->future.IsReady();
  return nullptr;
}
FUNCTION(Event_Await) {
  CHECKED(a->event->future.Await());
  return nullptr;
}
FUNCTION(Event_Error) {
  CHECKED(a->event->future.Await());
  return nullptr;
}
FUNCTION(Event_OnReady) {
  a->event->future.OnReady(
      [callback = a->callback, argument = a->user_arg](const absl::Status& status) {
        callback(status.ok() ? nullptr : Made(status), argument);
      });
  return nullptr;
}

// ---- Clients.

// The key-value store of whoever makes the client, through its callbacks.
class Store : public xla::KeyValueStoreInterface {
 public:
  explicit Store(const PJRT_Client_Create_Args& a) : a_(a) {}

  absl::StatusOr<std::string> Get(absl::string_view key,
                                  absl::Duration timeout) override {
    PJRT_CallbackError error = &Failed;
    PJRT_KeyValueGetCallback_Args k{PJRT_KeyValueGetCallback_Args_STRUCT_SIZE};
    k.key = key.data();
    k.key_size = key.size();
    k.timeout_in_ms = absl::ToInt64Milliseconds(timeout);
    k.callback_error = &error;
    k.user_arg = a_.kv_get_user_arg;
    if (PJRT_Error* e = a_.kv_get_callback(&k)) return Taken(e);
    std::string value(k.value, k.value_size);
    k.value_deleter_callback(k.value);
    return value;
  }
  absl::StatusOr<std::string> TryGet(absl::string_view key) override {
    PJRT_CallbackError error = &Failed;
    PJRT_KeyValueTryGetCallback_Args k{PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE};
    k.key = key.data();
    k.key_size = key.size();
    k.callback_error = &error;
    k.user_arg = a_.kv_try_get_user_arg;
    if (PJRT_Error* e = a_.kv_try_get_callback(&k)) return Taken(e);
    std::string value(k.value, k.value_size);
    k.value_deleter_callback(k.value);
    return value;
  }
  absl::Status Set(absl::string_view key, absl::string_view value) override {
    PJRT_CallbackError error = &Failed;
    PJRT_KeyValuePutCallback_Args k{PJRT_KeyValuePutCallback_Args_STRUCT_SIZE};
    k.key = key.data();
    k.key_size = key.size();
    k.value = value.data();
    k.value_size = value.size();
    k.callback_error = &error;
    k.user_arg = a_.kv_put_user_arg;
    if (PJRT_Error* e = a_.kv_put_callback(&k)) return Taken(e);
    return absl::OkStatus();
  }
  std::shared_ptr<tsl::CallOptions> AsyncGet(
      absl::string_view, tsl::CoordinationServiceAgent::StatusOrValueCallback) override {
    return nullptr;
  }

 private:
  static PJRT_Error* Failed(PJRT_Error_Code code, const char* message, size_t size) {
    return new PJRT_Error{static_cast<absl::StatusCode>(code),
                          std::string(message, size)};
  }
  static absl::Status Taken(PJRT_Error* error) {
    absl::Status status(error->code, error->message);
    delete error;
    return status;
  }
  PJRT_Client_Create_Args a_;
};

// What the processes of a program tell each other of their devices: "4 processes, 8
// devices", or an error.
absl::StatusOr<std::string> Exchanged(const PJRT_Client_Create_Args& a, int node,
                                      int nodes, int devices) {
  Store store(a);
  auto absent = store.TryGet("shim/absent");
  if (absent.status().code() != absl::StatusCode::kNotFound)
    return absl::InternalError("a key that nobody set was found");
  xla::LocalTopologyProto local;
  xla::GlobalTopologyProto global;
  local.set_node_id(node);
  local.set_boot_id("boot");
  for (int i = 0; i < devices; ++i) {
    xla::DeviceProto* device = local.add_devices();
    device->set_local_device_ordinal(i);
    device->set_global_device_id(node * devices + i);
    device->set_name("cpu");
  }
  absl::Status status =
      xla::ExchangeTopologies("shim", node, nodes, absl::Seconds(60), absl::Seconds(60),
                              &store, local, &global, /*assign_global_device_ids=*/true);
  if (!status.ok()) return status;
  int count = 0;
  for (const auto& n : global.nodes()) count += n.devices_size();
  return std::to_string(global.nodes_size()) + " processes, " + std::to_string(count) +
         " devices";
}

FUNCTION(Client_Create) {
  xla::CpuClientOptions options;
  int node = 0, nodes = 1, devices = 1;
  for (size_t i = 0; i < a->num_options; ++i) {
    const PJRT_NamedValue& v = a->create_options[i];
    std::string name(v.name, v.name_size);
    if (name == "cpu_device_count") {
      devices = v.int64_value;
    } else if (name == "asynchronous") {
      options.asynchronous = v.bool_value;
    } else if (name == "node_id") {
      node = v.int64_value;
    } else if (name == "num_nodes") {
      nodes = v.int64_value;
    } else {
      return new PJRT_Error{
          absl::StatusCode::kInvalidArgument,
          "Unexpected option name passed to PJRT_Client_Create: " + name};
    }
  }
  options.cpu_device_count = devices;
  std::string topology;
  std::unique_ptr<xla::CpuTopologyDescription> all;
  if (a->kv_get_callback) {
    ASSIGNED(said, Exchanged(*a, node, nodes, devices));
    topology = "; " + said;
    std::vector<xla::CpuTopology::CpuDevice> known;
    for (int process = 0; process < nodes; ++process)
      for (int i = 0; i < devices; ++i) known.push_back({process, i});
    std::vector<std::string> attributes;
    all = std::make_unique<xla::CpuTopologyDescription>(
        xla::CpuId(), xla::CpuName(), "shim", known, attributes);
    options.collectives =
        std::make_shared<shim::StoreCollectives>(std::make_shared<Store>(*a));
    options.process_id = node;
    options.cpu_device_count = nodes * devices;
    options.topology = all.get();
  }
  ASSIGNED(client, xla::GetXlaPjrtCpuClient(std::move(options)));
  auto made = std::make_unique<PJRT_Client>();
  made->client = std::move(client);
  made->name = std::string(made->client->platform_name());
  made->version = std::string(made->client->platform_version()) + topology;
  for (xla::PjRtMemorySpace* space : made->client->memory_spaces()) {
    made->owned_memories.push_back(std::make_unique<PJRT_Memory>(PJRT_Memory{space}));
    made->memories.push_back(made->owned_memories.back().get());
  }
  for (xla::PjRtDevice* device : made->client->devices()) {
    auto d = std::make_unique<PJRT_Device>();
    d->device = device;
    d->description = {device, std::string(device->device_kind()),
                      std::string(device->ToString())};
    PJRT_NamedValue& attribute = d->description.attribute;
    attribute.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    attribute.name = "shim";
    attribute.name_size = 4;
    attribute.type = PJRT_NamedValue_kInt64;
    attribute.int64_value = device->id();
    attribute.value_size = 1;
    for (xla::PjRtMemorySpace* space : device->memory_spaces()) {
      PJRT_Memory* memory = made->Find(space);
      memory->devices.push_back(d.get());
      d->memories.push_back(memory);
    }
    d->standard = nullptr;
    if (device->IsAddressable()) {
      d->standard = made->Find(*device->default_memory_space());
      made->addressable.push_back(d.get());
    }
    made->devices.push_back(d.get());
    made->owned_devices.push_back(std::move(d));
  }
  a->client = made.release();
  return nullptr;
}
FUNCTION(Client_Destroy) {
  delete a->client;
  return nullptr;
}
FUNCTION(Client_PlatformName) {
  a->platform_name = a->client->name.data();
  a->platform_name_size = a->client->name.size();
  return nullptr;
}
FUNCTION(Client_PlatformVersion) {
  a->platform_version = a->client->version.data();
  a->platform_version_size = a->client->version.size();
  return nullptr;
}
FUNCTION(Client_ProcessIndex) {
  a->process_index = a->client->client->process_index();
  return nullptr;
}
FUNCTION(Client_Devices) {
  a->devices = a->client->devices.data();
  a->num_devices = a->client->devices.size();
  return nullptr;
}
FUNCTION(Client_LookupDevice) {
  for (PJRT_Device* d : a->client->devices)
    if (d->device->id() == a->id) a->device = d;
  return nullptr;
}
FUNCTION(Client_AddressableDevices) {
  a->addressable_devices = a->client->addressable.data();
  a->num_addressable_devices = a->client->addressable.size();
  return nullptr;
}
FUNCTION(Client_AddressableMemories) {
  a->addressable_memories = a->client->memories.data();
  a->num_addressable_memories = a->client->memories.size();
  return nullptr;
}
FUNCTION(Client_DefaultDeviceAssignment) {
  ASSIGNED(found, a->client->client->GetDefaultDeviceAssignment(a->num_replicas,
                                                                a->num_partitions));
  for (int r = 0; r < a->num_replicas; ++r)
    for (int p = 0; p < a->num_partitions; ++p)
      a->default_assignment[r * a->num_partitions + p] = found(r, p);
  return nullptr;
}

PJRT_LoadedExecutable* Loaded(std::unique_ptr<xla::PjRtLoadedExecutable> executable,
                              PJRT_Client* client) {
  auto* made = new PJRT_LoadedExecutable{std::move(executable), client};
  for (xla::PjRtDevice* d : made->executable->addressable_devices())
    made->devices.push_back(client->Find(d));
  return made;
}

FUNCTION(Client_Compile) {
  SIZED(PJRT_Program, a->program);
  if (std::string(a->program->format, a->program->format_size) != "mlir")
    return new PJRT_Error{absl::StatusCode::kUnimplemented, "formats but mlir"};
  xla::CompileOptionsProto proto;
  if (!proto.ParseFromArray(a->compile_options, a->compile_options_size))
    return new PJRT_Error{absl::StatusCode::kInvalidArgument,
                          "PJRT_Client_Compile: failed to deserialize "
                          "CompileOptionsProto"};
  ASSIGNED(options, xla::CompileOptions::FromProto(proto));
  xla::XlaComputation computation;
  CHECKED(xla::ParseMlirModuleStringAndConvertToXlaComputation(
      absl::string_view(a->program->code, a->program->code_size), computation, false,
      false));
  ASSIGNED(made, a->client->client->CompileAndLoad(computation, options));
  a->executable = Loaded(std::move(made), a->client);
  return nullptr;
}
FUNCTION(Executable_DeserializeAndLoad) {
  absl::string_view data(a->serialized_executable, a->serialized_executable_size);
  ASSIGNED(made, a->client->client->LoadSerializedExecutable(data, std::nullopt,
                                                             xla::LoadOptions()));
  a->loaded_executable = Loaded(std::move(made), a->client);
  return nullptr;
}
FUNCTION(Client_BufferFromHostBuffer) {
  std::optional<absl::Span<const int64_t>> strides;
  if (a->num_byte_strides)
    strides = absl::MakeConstSpan(a->byte_strides, a->num_byte_strides);
  auto [promise, future] = xla::MakePromise<>();
  auto done = [p = std::move(promise)]() mutable { p.Set(); };
  xla::PjRtMemorySpace* space =
      a->memory ? a->memory->space : a->device->standard->space;
  ASSIGNED(made,
           a->client->client->BufferFromHostBuffer(
               a->data, ToXla(a->type), absl::MakeConstSpan(a->dims, a->num_dims),
               strides,
               static_cast<xla::PjRtClient::HostBufferSemantics>(
                   a->host_buffer_semantics),
               std::move(done), space, nullptr));
  a->done_with_host_buffer = new PJRT_Event{std::move(future)};
  a->buffer = Wrapped(std::move(made), a->client);
  return nullptr;
}
FUNCTION(Client_CreateViewOfDeviceBuffer) {
  xla::Shape shape = xla::ShapeUtil::MakeShape(ToXla(a->element_type),
                                               absl::MakeConstSpan(a->dims, a->num_dims));
  std::function<void()> deleted = [] {};
  if (auto callback = a->on_delete_callback) {
    void *memory = a->device_buffer_ptr, *argument = a->on_delete_callback_arg;
    deleted = [=] { callback(memory, argument); };
  }
  xla::PjRtMemorySpace* space =
      a->memory ? a->memory->space : a->device->standard->space;
  ASSIGNED(made, a->client->client->CreateViewOfDeviceBuffer(a->device_buffer_ptr, shape,
                                                             space, deleted));
  a->buffer = Wrapped(std::move(made), a->client);
  return nullptr;
}
FUNCTION(Client_CreateErrorBuffer) {
  xla::Shape shape = xla::ShapeUtil::MakeShape(
      ToXla(a->shape_element_type),
      absl::MakeConstSpan(a->shape_dims, a->shape_num_dims));
  absl::Status status(static_cast<absl::StatusCode>(a->error_code),
                      absl::string_view(a->error_message, a->error_message_size));
  ASSIGNED(made,
           a->client->client->CreateErrorBuffer(status, shape, a->memory->space));
  a->buffer = Wrapped(std::move(made), a->client);
  return nullptr;
}

// ---- Devices and memories.

FUNCTION(DeviceDescription_Id) {
  a->id = a->device_description->device->id();
  return nullptr;
}
FUNCTION(DeviceDescription_ProcessIndex) {
  a->process_index = a->device_description->device->process_index();
  return nullptr;
}
FUNCTION(DeviceDescription_Attributes) {
  a->num_attributes = 1;
  a->attributes = &a->device_description->attribute;
  return nullptr;
}
FUNCTION(DeviceDescription_Kind) {
  a->device_kind = a->device_description->kind.data();
  a->device_kind_size = a->device_description->kind.size();
  return nullptr;
}
FUNCTION(DeviceDescription_ToString) {
  a->to_string = a->device_description->text.data();
  a->to_string_size = a->device_description->text.size();
  return nullptr;
}
FUNCTION(DeviceDescription_DebugString) {
  a->debug_string = a->device_description->text.data();
  a->debug_string_size = a->device_description->text.size();
  return nullptr;
}
FUNCTION(Device_IsAddressable) {
  a->is_addressable = a->device->device->IsAddressable();
  return nullptr;
}
FUNCTION(Device_GetDescription) {
  a->device_description = &a->device->description;
  return nullptr;
}
FUNCTION(Device_LocalHardwareId) {
  a->local_hardware_id = a->device->device->local_hardware_id().value();
  return nullptr;
}
FUNCTION(Device_AddressableMemories) {
  a->memories = a->device->memories.data();
  a->num_memories = a->device->memories.size();
  return nullptr;
}
FUNCTION(Device_DefaultMemory) {
  a->memory = a->device->standard;
  return nullptr;
}
FUNCTION(Device_MemoryStats) {
  CHECKED(a->device->device->GetAllocatorStats().status());
  return nullptr;
}
FUNCTION(Memory_Id) {
  a->id = a->memory->space->id();
  return nullptr;
}
FUNCTION(Memory_Kind) {
  a->kind = a->memory->space->kind().data();
  a->kind_size = a->memory->space->kind().size();
  return nullptr;
}
FUNCTION(Memory_Kind_Id) {
  a->kind_id = a->memory->space->kind_id();
  return nullptr;
}
FUNCTION(Memory_DebugString) {
  a->debug_string = a->memory->space->DebugString().data();
  a->debug_string_size = a->memory->space->DebugString().size();
  return nullptr;
}
FUNCTION(Memory_ToString) {
  a->to_string = a->memory->space->ToString().data();
  a->to_string_size = a->memory->space->ToString().size();
  return nullptr;
}
FUNCTION(Memory_AddressableByDevices) {
  a->devices = a->memory->devices.data();
  a->num_devices = a->memory->devices.size();
  return nullptr;
}

// ---- Programs.

FUNCTION(Executable_Destroy) {
  delete a->executable;
  return nullptr;
}
FUNCTION(Executable_Name) {
  a->executable->name = std::string(a->executable->executable->name());
  a->executable_name = a->executable->name.data();
  a->executable_name_size = a->executable->name.size();
  return nullptr;
}
FUNCTION(Executable_NumReplicas) {
  a->num_replicas = a->executable->executable->num_replicas();
  return nullptr;
}
FUNCTION(Executable_NumPartitions) {
  a->num_partitions = a->executable->executable->num_partitions();
  return nullptr;
}

PJRT_Error* FindResults(PJRT_Executable* e) {
  if (!e->ranks.empty()) return nullptr;
  ASSIGNED(shapes, e->executable->GetOutputShapes());
  auto add = [&](const xla::Shape& shape) {
    e->types.push_back(FromXla(shape.element_type()));
    if (!shape.IsArray()) return e->ranks.push_back(0);  // a token
    e->ranks.push_back(shape.dimensions().size());
    for (int64_t d : shape.dimensions()) e->dims.push_back(d);
  };
  if (shapes[0].IsTuple()) {
    for (const xla::Shape& shape : shapes[0].tuple_shapes()) add(shape);
  } else {
    add(shapes[0]);
  }
  for (size_t i = 0; i < e->ranks.size(); ++i) {
    e->kinds.push_back("device");
    e->kind_sizes.push_back(6);
  }
  return nullptr;
}
FUNCTION(Executable_NumOutputs) {
  if (PJRT_Error* error = FindResults(a->executable)) return error;
  a->num_outputs = a->executable->ranks.size();
  return nullptr;
}
FUNCTION(Executable_OutputElementTypes) {
  if (PJRT_Error* error = FindResults(a->executable)) return error;
  a->output_types = a->executable->types.data();
  a->num_output_types = a->executable->types.size();
  return nullptr;
}
FUNCTION(Executable_OutputDimensions) {
  if (PJRT_Error* error = FindResults(a->executable)) return error;
  a->num_outputs = a->executable->ranks.size();
  a->dims = a->executable->dims.data();
  a->dim_sizes = a->executable->ranks.data();
  return nullptr;
}
FUNCTION(Executable_OutputMemoryKinds) {
  if (PJRT_Error* error = FindResults(a->executable)) return error;
  a->num_outputs = a->executable->kinds.size();
  a->memory_kinds = a->executable->kinds.data();
  a->memory_kind_sizes = a->executable->kind_sizes.data();
  return nullptr;
}
FUNCTION(Executable_SizeOfGeneratedCodeInBytes) {
  a->size_in_bytes = a->executable->executable->SizeOfGeneratedCodeInBytes();
  return nullptr;
}
FUNCTION(Executable_GetCostAnalysis) {
  PJRT_Executable* e = a->executable;
  if (e->costs.empty()) {
    ASSIGNED(found, e->executable->GetCostAnalysis());
    for (const auto& [name, value] : found) e->cost_names.push_back(name);
    for (const std::string& name : e->cost_names) {
      PJRT_NamedValue v{PJRT_NamedValue_STRUCT_SIZE};
      v.name = name.data();
      v.name_size = name.size();
      v.type = PJRT_NamedValue_kFloat;
      v.float_value = std::get<float>(found.at(name));
      v.value_size = 1;
      e->costs.push_back(v);
    }
  }
  a->num_properties = e->costs.size();
  a->properties = e->costs.data();
  return nullptr;
}
FUNCTION(Executable_GetCompiledMemoryStats) {
  ASSIGNED(found, a->executable->executable->GetCompiledMemoryStats());
  a->generated_code_size_in_bytes = found.generated_code_size_in_bytes;
  a->argument_size_in_bytes = found.argument_size_in_bytes;
  a->output_size_in_bytes = found.output_size_in_bytes;
  a->alias_size_in_bytes = found.alias_size_in_bytes;
  a->temp_size_in_bytes = found.temp_size_in_bytes;
  return nullptr;
}
FUNCTION(Executable_OptimizedProgram) {
  static const char kFormat[] = "hlo_text";
  PJRT_Executable* e = a->executable;
  if (e->optimized.empty()) {
    ASSIGNED(modules, e->executable->GetHloModules());
    e->optimized = modules[0]->ToString();
  }
  a->program->format = kFormat;
  a->program->format_size = sizeof(kFormat) - 1;
  if (a->program->code == nullptr) {
    a->program->code_size = e->optimized.size();
  } else {
    memcpy(a->program->code, e->optimized.data(), e->optimized.size());
  }
  return nullptr;
}
FUNCTION(Executable_Serialize) {
  // The interface has const executables here, XLA's methods are const, too.
  ASSIGNED(data, a->executable->executable->SerializeExecutable());
  auto* kept = new PJRT_SerializedExecutable{std::move(data)};
  a->serialized_bytes = kept->data.data();
  a->serialized_bytes_size = kept->data.size();
  a->serialized_executable = kept;
  a->serialized_executable_deleter = [](PJRT_SerializedExecutable* x) { delete x; };
  return nullptr;
}
FUNCTION(LoadedExecutable_Destroy) {
  delete a->executable;
  return nullptr;
}
FUNCTION(LoadedExecutable_GetExecutable) {
  a->executable = new PJRT_Executable{a->loaded_executable->executable};
  return nullptr;
}
FUNCTION(LoadedExecutable_AddressableDevices) {
  a->addressable_devices = a->executable->devices.data();
  a->num_addressable_devices = a->executable->devices.size();
  return nullptr;
}
FUNCTION(LoadedExecutable_GetDeviceAssignment) {
  xla::DeviceAssignmentProto proto;
  a->executable->executable->device_assignment().Serialize(&proto);
  auto* kept = new PJRT_DeviceAssignmentSerialized{proto.SerializeAsString()};
  a->serialized_bytes = kept->data.data();
  a->serialized_bytes_size = kept->data.size();
  a->serialized_device_assignment = kept;
  a->serialized_device_assignment_deleter =
      [](PJRT_DeviceAssignmentSerialized* x) { delete x; };
  return nullptr;
}
FUNCTION(LoadedExecutable_Delete) {
  a->executable->executable->Delete();
  return nullptr;
}
FUNCTION(LoadedExecutable_IsDeleted) {
  a->is_deleted = a->executable->executable->IsDeleted();
  return nullptr;
}
FUNCTION(LoadedExecutable_Execute) {
  SIZED(PJRT_ExecuteOptions, a->options);
  xla::ExecuteOptions options;
  options.launch_id = a->options->launch_id;
  const int64_t* kept = a->options->non_donatable_input_indices;
  for (size_t i = 0; i < a->options->num_non_donatable_input_indices; ++i)
    options.non_donatable_input_indices.insert(kept[i]);
  std::vector<std::vector<xla::PjRtBuffer*>> operands(a->num_devices);
  for (size_t d = 0; d < a->num_devices; ++d)
    for (size_t i = 0; i < a->num_args; ++i)
      operands[d].push_back(a->argument_lists[d][i]->buffer.get());
  std::optional<std::vector<xla::Future<>>> futures;
  if (a->device_complete_events) futures.emplace();
  ASSIGNED(results, a->executable->executable->Execute(operands, options, futures));
  for (size_t d = 0; d < results.size(); ++d) {
    for (size_t i = 0; i < results[d].size(); ++i)
      a->output_lists[d][i] = Wrapped(std::move(results[d][i]), a->executable->client);
    if (futures) a->device_complete_events[d] = new PJRT_Event{(*futures)[d]};
  }
  return nullptr;
}

// ---- Buffers.

FUNCTION(Buffer_Destroy) {
  delete a->buffer;
  return nullptr;
}
FUNCTION(Buffer_ElementType) {
  a->type = FromXla(a->buffer->buffer->element_type());
  return nullptr;
}
FUNCTION(Buffer_Dimensions) {
  auto dims = a->buffer->buffer->dimensions();
  a->buffer->dims.assign(dims.begin(), dims.end());
  a->dims = a->buffer->dims.data();
  a->num_dims = dims.size();
  return nullptr;
}
FUNCTION(Buffer_OnDeviceSizeInBytes) {
  ASSIGNED(size, a->buffer->buffer->GetOnDeviceSizeInBytes());
  a->on_device_size_in_bytes = size;
  return nullptr;
}
FUNCTION(Buffer_Device) {
  a->device = a->buffer->client->Find(a->buffer->buffer->device());
  return nullptr;
}
FUNCTION(Buffer_Memory) {
  a->memory = a->buffer->client->Find(a->buffer->buffer->memory_space());
  return nullptr;
}
FUNCTION(Buffer_Delete) {
  a->buffer->buffer->Delete();
  return nullptr;
}
FUNCTION(Buffer_IsDeleted) {
  a->is_deleted = a->buffer->buffer->IsDeleted();
  return nullptr;
}
FUNCTION(Buffer_IsOnCpu) {
  a->is_on_cpu = a->buffer->buffer->IsOnCpu();
  return nullptr;
}
FUNCTION(Buffer_CopyToMemory) {
  ASSIGNED(made, a->buffer->buffer->CopyToMemorySpace(a->dst_memory->space));
  a->dst_buffer = Wrapped(std::move(made), a->buffer->client);
  return nullptr;
}
FUNCTION(Buffer_ToHostBuffer) {
  xla::PjRtBuffer* buffer = a->src->buffer.get();
  xla::Shape shape =
      xla::ShapeUtil::MakeShape(buffer->element_type(), buffer->dimensions());
  size_t size = xla::ShapeUtil::ByteSizeOfElements(shape);
  if (a->dst == nullptr) {
    a->dst_size = size;
    return nullptr;
  }
  if (a->dst_size < size)
    return new PJRT_Error{absl::StatusCode::kInvalidArgument,
                          "`dst_size` must be >= " + std::to_string(size) + ", got " +
                              std::to_string(a->dst_size)};
  auto literal = std::make_shared<xla::MutableBorrowingLiteral>(
      static_cast<char*>(a->dst), shape);
  auto future = buffer->ToLiteral(literal.get());
  future.OnReady([literal](absl::Status) {});
  a->event = new PJRT_Event{std::move(future)};
  return nullptr;
}
FUNCTION(Buffer_ReadyEvent) {
  a->event = new PJRT_Event{a->buffer->buffer->GetReadyFuture()};
  return nullptr;
}
FUNCTION(Buffer_UnsafePointer) {
  xla::PjRtClient* client = a->buffer->client->client.get();
  ASSIGNED(address, client->UnsafeBufferPointer(a->buffer->buffer.get()));
  a->buffer_pointer = address;
  return nullptr;
}
FUNCTION(Buffer_OpaqueDeviceMemoryDataPointer) {
  ASSIGNED(reference, a->buffer->buffer->AcquireExternalReference());
  a->device_memory_ptr = reference->OpaqueDeviceMemoryDataPointer();
  return nullptr;
}
FUNCTION(Buffer_IncreaseExternalReferenceCount) {
  ASSIGNED(reference, a->buffer->buffer->AcquireExternalReference());
  a->buffer->references.push_back(std::move(reference));
  return nullptr;
}
FUNCTION(Buffer_DecreaseExternalReferenceCount) {
  if (a->buffer->references.empty())
    return new PJRT_Error{absl::StatusCode::kInvalidArgument, "no reference is left"};
  a->buffer->references.pop_back();
  return nullptr;
}

// ---- Handlers of XLA's typed interface.

PJRT_Error* RegisterHandler(PJRT_FFI_Register_Handler_Args* a) {
  SIZED(PJRT_FFI_Register_Handler_Args, a);
  const XLA_FFI_Api* ffi = xla::ffi::GetXlaFfiApi();
  XLA_FFI_Handler_Register_Args r{XLA_FFI_Handler_Register_Args_STRUCT_SIZE};
  r.name = {a->target_name, a->target_name_size};
  r.platform = {a->platform_name, a->platform_name_size};
  r.bundle.execute = reinterpret_cast<XLA_FFI_Handler*>(a->handler);
  r.traits = a->traits;
  XLA_FFI_Error* error = ffi->XLA_FFI_Handler_Register(&r);
  if (error == nullptr) return nullptr;
  XLA_FFI_Error_GetMessage_Args m{XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE};
  m.error = error;
  ffi->XLA_FFI_Error_GetMessage(&m);
  auto* made = new PJRT_Error{absl::StatusCode::kInvalidArgument, m.message};
  XLA_FFI_Error_Destroy_Args d{XLA_FFI_Error_Destroy_Args_STRUCT_SIZE};
  d.error = error;
  ffi->XLA_FFI_Error_Destroy(&d);
  return made;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* made = [] {
    auto* api = new PJRT_Api{};
    api->struct_size = PJRT_Api_STRUCT_SIZE;
    static PJRT_FFI_Extension ffi{
        {PJRT_FFI_Extension_STRUCT_SIZE, PJRT_Extension_Type_FFI, nullptr},
        nullptr, nullptr, RegisterHandler};
    api->extension_start = &ffi.base;
    api->pjrt_api_version = {PJRT_Api_Version_STRUCT_SIZE, nullptr, PJRT_API_MAJOR,
                             PJRT_API_MINOR};
#define HAS(name) api->PJRT_##name = name;
    HAS(Error_Destroy) HAS(Error_Message) HAS(Error_GetCode) HAS(Plugin_Initialize)
    HAS(Plugin_Attributes) HAS(Event_Destroy) HAS(Event_IsReady) HAS(Event_Error)
    HAS(Event_Await) HAS(Event_OnReady) HAS(Client_LookupDevice)
    HAS(DeviceDescription_DebugString) HAS(Device_IsAddressable) HAS(Memory_Kind_Id)
    HAS(Memory_DebugString) HAS(LoadedExecutable_Delete)
    HAS(LoadedExecutable_IsDeleted) HAS(LoadedExecutable_GetDeviceAssignment) HAS(Client_Create) HAS(Client_Destroy) HAS(Client_PlatformName)
    HAS(Client_PlatformVersion) HAS(Client_ProcessIndex) HAS(Client_Devices)
    HAS(Client_AddressableDevices) HAS(Client_AddressableMemories) HAS(Client_Compile)
    HAS(Client_DefaultDeviceAssignment) HAS(Client_BufferFromHostBuffer)
    HAS(Client_CreateViewOfDeviceBuffer) HAS(Client_CreateErrorBuffer)
    HAS(DeviceDescription_Id) HAS(DeviceDescription_ProcessIndex)
    HAS(DeviceDescription_Attributes) HAS(DeviceDescription_Kind)
    HAS(DeviceDescription_ToString) HAS(Device_GetDescription)
    HAS(Device_LocalHardwareId) HAS(Device_AddressableMemories)
    HAS(Device_DefaultMemory) HAS(Device_MemoryStats) HAS(Memory_Id) HAS(Memory_Kind)
    HAS(Memory_ToString) HAS(Memory_AddressableByDevices) HAS(Executable_Destroy)
    HAS(Executable_Name) HAS(Executable_NumReplicas) HAS(Executable_NumPartitions)
    HAS(Executable_NumOutputs) HAS(Executable_SizeOfGeneratedCodeInBytes)
    HAS(Executable_GetCostAnalysis) HAS(Executable_OutputMemoryKinds)
    HAS(Executable_OptimizedProgram) HAS(Executable_Serialize)
    HAS(Executable_DeserializeAndLoad) HAS(Executable_OutputElementTypes)
    HAS(Executable_OutputDimensions) HAS(Executable_GetCompiledMemoryStats)
    HAS(LoadedExecutable_Destroy) HAS(LoadedExecutable_GetExecutable)
    HAS(LoadedExecutable_AddressableDevices) HAS(LoadedExecutable_Execute)
    HAS(Buffer_Destroy) HAS(Buffer_ElementType) HAS(Buffer_Dimensions)
    HAS(Buffer_OnDeviceSizeInBytes) HAS(Buffer_Device) HAS(Buffer_Memory)
    HAS(Buffer_Delete) HAS(Buffer_IsDeleted) HAS(Buffer_IsOnCpu)
    HAS(Buffer_CopyToMemory) HAS(Buffer_ToHostBuffer) HAS(Buffer_ReadyEvent)
    HAS(Buffer_UnsafePointer) HAS(Buffer_OpaqueDeviceMemoryDataPointer)
    HAS(Buffer_IncreaseExternalReferenceCount)
    HAS(Buffer_DecreaseExternalReferenceCount)
#undef HAS
    return api;
  }();
  return made;
}
