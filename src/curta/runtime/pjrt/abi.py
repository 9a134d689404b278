"""The C interface of PJRT as data: the table of functions and the layouts of structs.

Both only grow at their ends. Where a plugin is older, the table is shorter and it does
not look at the last fields of a struct; where it is newer, it may want more fields than
are known here, which mean "not given" where they are zero. So structs are made with
zeroed room behind them, and a plugin that wants a larger one can be given it.
"""

from __future__ import annotations

import ctypes
from typing import Any

from curta._base.once import once

#: The versions of the interface that this binding can use: below the first the table
#: had another order, and another major version has another interface.
MAJOR, OLDEST_MINOR = 0, 57
#: The version that the tables here are those of.
MINOR = 105

#: PJRT_Api: size_t, extensions, a struct of the version, and then functions.
VERSION_OFFSET, FUNCTIONS_OFFSET = 32, 40

#: The functions, in the order of the table.
FUNCTIONS = """
Error_Destroy Error_Message Error_GetCode
Plugin_Initialize Plugin_Attributes
Event_Destroy Event_IsReady Event_Error Event_Await Event_OnReady
Client_Create Client_Destroy Client_PlatformName Client_ProcessIndex
Client_PlatformVersion Client_Devices Client_AddressableDevices Client_LookupDevice
Client_LookupAddressableDevice Client_AddressableMemories Client_Compile
Client_DefaultDeviceAssignment Client_BufferFromHostBuffer
DeviceDescription_Id DeviceDescription_ProcessIndex DeviceDescription_Attributes
DeviceDescription_Kind DeviceDescription_DebugString DeviceDescription_ToString
Device_GetDescription Device_IsAddressable Device_LocalHardwareId
Device_AddressableMemories Device_DefaultMemory Device_MemoryStats
Memory_Id Memory_Kind Memory_DebugString Memory_ToString Memory_AddressableByDevices
Executable_Destroy Executable_Name Executable_NumReplicas Executable_NumPartitions
Executable_NumOutputs Executable_SizeOfGeneratedCodeInBytes Executable_GetCostAnalysis
Executable_OutputMemoryKinds Executable_OptimizedProgram Executable_Serialize
LoadedExecutable_Destroy LoadedExecutable_GetExecutable
LoadedExecutable_AddressableDevices LoadedExecutable_Delete LoadedExecutable_IsDeleted
LoadedExecutable_Execute Executable_DeserializeAndLoad LoadedExecutable_Fingerprint
Buffer_Destroy Buffer_ElementType Buffer_Dimensions Buffer_UnpaddedDimensions
Buffer_DynamicDimensionIndices Buffer_GetMemoryLayout Buffer_OnDeviceSizeInBytes
Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted Buffer_CopyToDevice
Buffer_ToHostBuffer Buffer_IsOnCpu Buffer_ReadyEvent Buffer_UnsafePointer
Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount
Buffer_OpaqueDeviceMemoryDataPointer
CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk CopyToDeviceStream_TotalBytes
CopyToDeviceStream_GranuleSize CopyToDeviceStream_CurrentBytes
TopologyDescription_Create TopologyDescription_Destroy TopologyDescription_PlatformName
TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions
TopologyDescription_Serialize TopologyDescription_Attributes Compile
Executable_OutputElementTypes Executable_OutputDimensions Buffer_CopyToMemory
Client_CreateViewOfDeviceBuffer Executable_Fingerprint Client_TopologyDescription
Executable_GetCompiledMemoryStats Memory_Kind_Id ExecuteContext_Create
ExecuteContext_Destroy Buffer_CopyRawToHost AsyncHostToDeviceTransferManager_Destroy
AsyncHostToDeviceTransferManager_TransferData Client_CreateBuffersForAsyncHostToDevice
AsyncHostToDeviceTransferManager_RetrieveBuffer AsyncHostToDeviceTransferManager_Device
AsyncHostToDeviceTransferManager_BufferCount AsyncHostToDeviceTransferManager_BufferSize
AsyncHostToDeviceTransferManager_SetBufferError
AsyncHostToDeviceTransferManager_AddMetadata Client_DmaMap Client_DmaUnmap
Client_CreateUninitializedBuffer Client_UpdateGlobalProcessInfo
TopologyDescription_Deserialize Client_CreateAliasBuffer Client_FulfillAliasBuffer
LoadedExecutable_GetDeviceAssignment Client_CreateErrorBuffer
AsyncHostToDeviceTransferManager_TransferLiteral Buffer_CopyRawToHostFuture
Device_PoisonExecution Device_CreateAsyncTrackingEvent AsyncTrackingEvent_Destroy
Executable_GetCompileOptions Buffer_DonateWithControlDependency Event_Create Event_Set
Device_GetAttributes Client_Load LoadedExecutable_AddressableDeviceLogicalIds
Buffer_Bitcast Error_ForEachPayload TopologyDescription_Fingerprint
Executable_ParameterMemoryKinds Buffer_CopyRawFromHost
""".split()

# p: pointer, z: size_t, i: int, q: int64_t, b: bool.
_TYPES = {
    "p": ctypes.c_void_p,
    "z": ctypes.c_size_t,
    "i": ctypes.c_int32,
    "q": ctypes.c_int64,
    "b": ctypes.c_bool,
}

#: The fields of each struct after its size and its extensions. Arguments of functions
#: stand under the name of the function; structs passed otherwise are in `PLAIN`.
ARGUMENTS = """
Error_Destroy error:p
Error_Message error:p message:p message_size:z
Error_GetCode error:p code:i
Plugin_Initialize
Plugin_Attributes attributes:p num_attributes:z
Event_Destroy event:p
Event_IsReady event:p is_ready:b
Event_Error event:p
Event_Await event:p
Event_OnReady event:p callback:p user_arg:p
Event_Create event:p
Event_Set event:p error_code:i error_message:p error_message_size:z
Client_Create create_options:p num_options:z kv_get_callback:p kv_get_user_arg:p \
    kv_put_callback:p kv_put_user_arg:p client:p kv_try_get_callback:p \
    kv_try_get_user_arg:p
Client_Destroy client:p
Client_PlatformName client:p platform_name:p platform_name_size:z
Client_ProcessIndex client:p process_index:i
Client_PlatformVersion client:p platform_version:p platform_version_size:z
Client_TopologyDescription client:p topology:p
Client_Devices client:p devices:p num_devices:z
Client_AddressableDevices client:p addressable_devices:p num_addressable_devices:z
Client_AddressableMemories client:p addressable_memories:p num_addressable_memories:z
Client_Compile client:p program:p compile_options:p compile_options_size:z executable:p
Client_DefaultDeviceAssignment client:p num_replicas:i num_partitions:i \
    default_assignment_size:z default_assignment:p
Client_BufferFromHostBuffer client:p data:p type:i dims:p num_dims:z byte_strides:p \
    num_byte_strides:z host_buffer_semantics:i device:p memory:p device_layout:p \
    done_with_host_buffer:p buffer:p
Client_CreateViewOfDeviceBuffer client:p device_buffer_ptr:p dims:p num_dims:z \
    element_type:i layout:p device:p on_delete_callback:p on_delete_callback_arg:p \
    stream:p buffer:p memory:p
Client_CreateErrorBuffer client:p error_code:i error_message:p error_message_size:z \
    shape_dims:p shape_num_dims:z shape_element_type:i shape_layout:p memory:p buffer:p
DeviceDescription_Id device_description:p id:i
DeviceDescription_ProcessIndex device_description:p process_index:i
DeviceDescription_Attributes device_description:p num_attributes:z attributes:p
DeviceDescription_Kind device_description:p device_kind:p device_kind_size:z
DeviceDescription_DebugString device_description:p debug_string:p debug_string_size:z
DeviceDescription_ToString device_description:p to_string:p to_string_size:z
Device_GetDescription device:p device_description:p
Device_IsAddressable device:p is_addressable:b
Device_LocalHardwareId device:p local_hardware_id:i
Device_AddressableMemories device:p memories:p num_memories:z
Device_DefaultMemory device:p memory:p
Device_MemoryStats device:p bytes_in_use:q peak_bytes_in_use:q \
    peak_bytes_in_use_is_set:b num_allocs:q num_allocs_is_set:b largest_alloc_size:q \
    largest_alloc_size_is_set:b bytes_limit:q bytes_limit_is_set:b bytes_reserved:q \
    bytes_reserved_is_set:b peak_bytes_reserved:q peak_bytes_reserved_is_set:b \
    bytes_reservable_limit:q bytes_reservable_limit_is_set:b \
    largest_free_block_bytes:q largest_free_block_bytes_is_set:b pool_bytes:q \
    pool_bytes_is_set:b peak_pool_bytes:q peak_pool_bytes_is_set:b
Memory_Id memory:p id:i
Memory_Kind memory:p kind:p kind_size:z
Memory_ToString memory:p to_string:p to_string_size:z
Memory_AddressableByDevices memory:p devices:p num_devices:z
Executable_Destroy executable:p
Executable_Name executable:p executable_name:p executable_name_size:z
Executable_NumReplicas executable:p num_replicas:z
Executable_NumPartitions executable:p num_partitions:z
Executable_NumOutputs executable:p num_outputs:z
Executable_SizeOfGeneratedCodeInBytes executable:p size_in_bytes:q
Executable_Fingerprint executable:p executable_fingerprint:p \
    executable_fingerprint_size:z
Executable_GetCostAnalysis executable:p num_properties:z properties:p
Executable_GetCompiledMemoryStats executable:p generated_code_size_in_bytes:q \
    argument_size_in_bytes:q output_size_in_bytes:q alias_size_in_bytes:q \
    temp_size_in_bytes:q host_generated_code_size_in_bytes:q \
    host_argument_size_in_bytes:q host_output_size_in_bytes:q \
    host_alias_size_in_bytes:q host_temp_size_in_bytes:q peak_memory_in_bytes:q \
    total_size_in_bytes:q
Executable_OutputElementTypes executable:p output_types:p num_output_types:z
Executable_OutputDimensions executable:p num_outputs:z dims:p dim_sizes:p
Executable_OutputMemoryKinds executable:p num_outputs:z memory_kinds:p \
    memory_kind_sizes:p
Executable_OptimizedProgram executable:p program:p
Executable_Serialize executable:p serialized_bytes:p serialized_bytes_size:z \
    serialized_executable:p serialized_executable_deleter:p
Executable_DeserializeAndLoad client:p serialized_executable:p \
    serialized_executable_size:z loaded_executable:p \
    overridden_serialized_compile_options:p \
    overridden_serialized_compile_options_size:z
LoadedExecutable_Destroy executable:p
LoadedExecutable_GetExecutable loaded_executable:p executable:p
LoadedExecutable_AddressableDevices executable:p addressable_devices:p \
    num_addressable_devices:z
LoadedExecutable_Delete executable:p
LoadedExecutable_IsDeleted executable:p is_deleted:b
LoadedExecutable_Execute executable:p options:p argument_lists:p num_devices:z \
    num_args:z output_lists:p device_complete_events:p execute_device:p
Buffer_Destroy buffer:p
Buffer_ElementType buffer:p type:i
Buffer_Dimensions buffer:p dims:p num_dims:z
Buffer_OnDeviceSizeInBytes buffer:p on_device_size_in_bytes:z
Buffer_Device buffer:p device:p
Buffer_Memory buffer:p memory:p
Buffer_Delete buffer:p
Buffer_IsDeleted buffer:p is_deleted:b
Buffer_CopyToDevice buffer:p dst_device:p dst_buffer:p
Buffer_CopyToMemory buffer:p dst_memory:p dst_buffer:p
Buffer_ToHostBuffer src:p host_layout:p dst:p dst_size:z event:p
Buffer_IsOnCpu buffer:p is_on_cpu:b
Buffer_ReadyEvent buffer:p event:p
Buffer_UnsafePointer buffer:p buffer_pointer:p
Buffer_IncreaseExternalReferenceCount buffer:p
Buffer_DecreaseExternalReferenceCount buffer:p
Buffer_OpaqueDeviceMemoryDataPointer buffer:p device_memory_ptr:p
CopyToDeviceStream_Destroy stream:p
CopyToDeviceStream_AddChunk stream:p chunk:p transfer_complete:p
CopyToDeviceStream_TotalBytes stream:p total_bytes:q
CopyToDeviceStream_GranuleSize stream:p granule_size_in_bytes:q
CopyToDeviceStream_CurrentBytes stream:p current_bytes:q
TopologyDescription_Create topology_name:p topology_name_size:z create_options:p \
    num_options:z topology:p
TopologyDescription_Destroy topology:p
TopologyDescription_PlatformName topology:p platform_name:p platform_name_size:z
TopologyDescription_PlatformVersion topology:p platform_version:p \
    platform_version_size:z
TopologyDescription_GetDeviceDescriptions topology:p descriptions:p num_descriptions:z
TopologyDescription_Serialize topology:p serialized_bytes:p serialized_bytes_size:z \
    serialized_topology:p serialized_topology_deleter:p
TopologyDescription_Deserialize serialized_topology:p serialized_topology_size:z \
    topology:p
TopologyDescription_Attributes topology:p attributes:p num_attributes:z
Compile topology:p program:p compile_options:p compile_options_size:z client:p \
    executable:p
"""

PLAIN = """
Program code:p code_size:z format:p format_size:z
NamedValue name:p name_size:z type:i value:q value_size:z
ExecuteOptions send_callbacks:p recv_callbacks:p num_send_ops:z num_recv_ops:z \
    launch_id:i non_donatable_input_indices:p num_non_donatable_input_indices:z \
    context:p call_location:p num_tasks:z task_ids:p incarnation_ids:p
Buffer_MemoryLayout tiled_struct_size:z tiled_extension_start:p minor_to_major:p \
    minor_to_major_size:z tile_dims:p tile_dim_sizes:p num_tiles:z type:i
KeyValueGetCallback_Args key:p key_size:z timeout_in_ms:i callback_error:p user_arg:p \
    value:p value_size:z value_deleter_callback:p
KeyValueTryGetCallback_Args key:p key_size:z callback_error:p user_arg:p value:p \
    value_size:z value_deleter_callback:p
KeyValuePutCallback_Args key:p key_size:z value:p value_size:z callback_error:p \
    user_arg:p
"""

#: Structs without a size and extensions.
BARE = """
SendCallbackInfo channel_id:q user_arg:p send_callback:p
RecvCallbackInfo channel_id:q user_arg:p recv_callback:p
Chunk data:p size:z deleter:p deleter_arg:p
Extension_Base struct_size:z type:i next:p
Get_Stream_For_External_Ready_Events_Args struct_size:z device:p stream:p
Wait_Until_Buffer_Ready_On_Stream_Args struct_size:z stream:p buffer:p
Gpu_Register_Custom_Call_Args struct_size:z function_name:p function_name_size:z \
    api_version:i handler_instantiate:p handler_prepare:p handler_initialize:p \
    handler_execute:p traits:i
FFI_Register_Handler_Args struct_size:z target_name:p target_name_size:z handler:p \
    platform_name:p platform_name_size:z traits:i
"""

#: Zeroed bytes behind each struct that has a size.
SPARE = 256


class Struct(ctypes.Structure):
    """A struct of the interface; `c_size` is that of its known fields, unpadded."""

    c_name: str
    c_size: int


def _fields(row: str) -> tuple[str, list[tuple[str, Any]]]:
    name, *fields = row.split()
    parts = [field.split(":") for field in fields]
    return name, [(field, _TYPES[kind]) for field, kind in parts]


def _struct(name: str, fields: list[tuple[str, Any]], spare: int) -> type[Struct]:
    room = [("spare", ctypes.c_char * spare)] if spare else []
    cls = type(name, (Struct,), {"_fields_": [*fields, *room], "c_name": name})
    last = getattr(cls, fields[-1][0])
    cls.c_size = last.offset + last.size  # type: ignore[attr-defined]
    return cls


_HEAD = [("struct_size", ctypes.c_size_t), ("extension_start", ctypes.c_void_p)]


def _rows(table: str) -> dict[str, list[tuple[str, Any]]]:
    return dict(_fields(row) for row in table.replace("\\\n", " ").splitlines() if row)


@once
def structs() -> dict[str, type[Struct]]:
    """The structs by their names in C without `PJRT_`."""
    result = {
        f"{name}_Args": _struct(f"PJRT_{name}_Args", [*_HEAD, *fields], SPARE)
        for name, fields in _rows(ARGUMENTS).items()
    }
    for name, fields in _rows(PLAIN).items():
        spare = 0 if name == "NamedValue" else SPARE  # they stand in arrays
        result[name] = _struct(f"PJRT_{name}", [*_HEAD, *fields], spare)
    return result | bare_structs(BARE, "PJRT_")


def bare_structs(table: str, prefix: str) -> dict[str, type[Struct]]:
    """The structs of a table that says all of their fields."""
    rows = _rows(table).items()
    return {name: _struct(prefix + name, fields, 0) for name, fields in rows}


#: PJRT_Buffer_Type for names of dtypes.
ELEMENT_TYPES = {
    name: code
    for code, name in enumerate(
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
        " bfloat16 complex64 complex128 float8_e5m2 float8_e4m3fn float8_e4m3b11fnuz"
        " float8_e5m2fnuz float8_e4m3fnuz int4 uint4 token int2 uint2 float8_e4m3"
        " float8_e3m4 float8_e8m0fnu float4_e2m1fn int1 uint1".split(),
        1,
    )
}
DTYPE_NAMES = {code: name for name, code in ELEMENT_TYPES.items()}

#: PJRT_Error_Code.
STATUS = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS"
    " PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE"
    " UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()

#: PJRT_HostBufferSemantics.
ONLY_DURING_CALL, UNTIL_TRANSFERRED, ZERO_COPY, MUTABLE_ZERO_COPY = range(4)

#: PJRT_Extension_Type of the extensions that register custom calls of GPUs, that know
#: the streams of a device, and that register handlers of XLA's typed interface.
GPU_CUSTOM_CALL_EXTENSION, STREAM_EXTENSION, FFI_EXTENSION = 0, 3, 5
