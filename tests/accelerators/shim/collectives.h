// Collectives between the processes of a program, over its key-value store. Each rank
// puts its bytes under a key of its own and gets those of the others: slow, and enough
// to run programs over devices of several processes.
#pragma once
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "xla/backends/cpu/collectives/cpu_collectives.h"
#include "xla/core/collectives/clique_key.h"
#include "xla/core/collectives/communicator.h"
#include "xla/pjrt/distributed/key_value_store_interface.h"
#include "xla/primitive_util.h"

namespace shim {

using xla::Future;
using xla::PrimitiveType;
using xla::RankId;
using xla::ReductionKind;
using xla::se::DeviceAddressBase;
using KeyValueStore = std::shared_ptr<xla::KeyValueStoreInterface>;

class StoreCommunicator : public xla::Communicator {
 public:
  StoreCommunicator(KeyValueStore store, std::string name, size_t rank, size_t ranks)
      : store_(std::move(store)), name_(std::move(name)), rank_(rank), ranks_(ranks) {}

  Future<> AllReduce(DeviceAddressBase send, DeviceAddressBase recv, PrimitiveType type,
                     size_t count, ReductionKind kind, const Executor&) override {
    return Future<>(Folded(send, type, count, kind, [&](const std::string& all) {
      std::memcpy(recv.opaque(), all.data(), all.size());
    }));
  }
  Future<> ReduceScatter(DeviceAddressBase send, DeviceAddressBase recv,
                         PrimitiveType type, size_t count, ReductionKind kind,
                         const Executor&) override {
    size_t part = Bytes(type, count);
    return Future<>(Folded(send, type, count * ranks_, kind, [&](const std::string& all) {
      std::memcpy(recv.opaque(), all.data() + rank_ * part, part);
    }));
  }
  Future<> AllGather(DeviceAddressBase send, DeviceAddressBase recv, PrimitiveType type,
                     size_t count, const Executor&) override {
    size_t part = Bytes(type, count);
    return Future<>(Exchange(send, part, [&](size_t rank, const std::string& bytes) {
      std::memcpy(static_cast<char*>(recv.opaque()) + rank * part, bytes.data(), part);
    }));
  }
  Future<> CollectivePermute(DeviceAddressBase send, DeviceAddressBase recv,
                             PrimitiveType type, size_t count,
                             std::optional<RankId> source, absl::Span<const RankId>,
                             const Executor&) override {
    size_t size = Bytes(type, count);
    if (!source) std::memset(recv.opaque(), 0, size);
    return Future<>(Exchange(send, size, [&](size_t rank, const std::string& bytes) {
      if (source && rank == source->value())
        std::memcpy(recv.opaque(), bytes.data(), size);
    }));
  }
  Future<> AllToAll(absl::InlinedVector<DeviceAddressBase, 4> send,
                    absl::InlinedVector<DeviceAddressBase, 4> recv, PrimitiveType type,
                    size_t count, const Executor&) override {
    size_t part = Bytes(type, count);
    std::string mine;
    for (const DeviceAddressBase& s : send)
      mine.append(static_cast<const char*>(s.opaque()), part);
    DeviceAddressBase joined(mine.data(), mine.size());
    return Future<>(
        Exchange(joined, mine.size(), [&](size_t rank, const std::string& bytes) {
          std::memcpy(recv[rank].opaque(), bytes.data() + rank_ * part, part);
        }));
  }
  Future<> Broadcast(DeviceAddressBase, DeviceAddressBase, PrimitiveType, size_t, RankId,
                     const Executor&) override {
    return Future<>(Missing("Broadcast"));
  }
  Future<> Send(DeviceAddressBase, PrimitiveType, size_t, RankId,
                const Executor&) override {
    return Future<>(Missing("Send"));
  }
  Future<> Recv(DeviceAddressBase, PrimitiveType, size_t, RankId,
                const Executor&) override {
    return Future<>(Missing("Recv"));
  }
  absl::StatusOr<size_t> NumRanks() const override { return ranks_; }
  std::string ToString() const override { return name_; }

 private:
  static size_t Bytes(PrimitiveType type, size_t count) {
    return count * xla::primitive_util::ByteWidth(type);
  }
  static absl::Status Missing(const char* what) {
    return absl::UnimplementedError(std::string(what) + " is not in the shim");
  }
  // Hands the bytes of each rank to `take`, in their order.
  template <class Take>
  absl::Status Exchange(DeviceAddressBase send, size_t size, Take take) {
    std::string turn = name_ + "/" + std::to_string(turn_++) + "/";
    absl::string_view mine(static_cast<const char*>(send.opaque()), size);
    absl::Status status = store_->Set(turn + std::to_string(rank_), mine);
    for (size_t rank = 0; status.ok() && rank < ranks_; ++rank) {
      auto bytes = store_->Get(turn + std::to_string(rank), absl::Seconds(60));
      status = bytes.status();
      if (status.ok()) take(rank, *bytes);
    }
    return status;
  }
  template <class Take>
  absl::Status Folded(DeviceAddressBase send, PrimitiveType type, size_t count,
                      ReductionKind kind, Take take) {
    switch (type) {
      case xla::F32: return FoldedAs<float>(send, count, kind, take);
      case xla::S32: return FoldedAs<int32_t>(send, count, kind, take);
      default: return Missing("a reduction of this type");
    }
  }
  template <class T, class Take>
  absl::Status FoldedAs(DeviceAddressBase send, size_t count, ReductionKind kind,
                        Take take) {
    std::string total;
    absl::Status status =
        Exchange(send, count * sizeof(T), [&](size_t, const std::string& bytes) {
          if (total.empty()) {
            total = bytes;
            return;
          }
          T* x = reinterpret_cast<T*>(total.data());
          const T* y = reinterpret_cast<const T*>(bytes.data());
          for (size_t i = 0; i < count; ++i) x[i] = Combined(kind, x[i], y[i]);
        });
    if (status.ok()) take(total);
    return status;
  }
  template <class T>
  static T Combined(ReductionKind kind, T x, T y) {
    switch (kind) {
      case ReductionKind::SUM: return x + y;
      case ReductionKind::PRODUCT: return x * y;
      case ReductionKind::MIN: return y < x ? y : x;
      case ReductionKind::MAX: return x < y ? y : x;
    }
  }

  KeyValueStore store_;
  std::string name_;
  size_t rank_, ranks_, turn_ = 0;
};

class StoreCollectives : public xla::cpu::CpuCollectives {
 public:
  explicit StoreCollectives(KeyValueStore store) : store_(std::move(store)) {}

  absl::StatusOr<std::vector<std::unique_ptr<xla::Communicator>>> CreateCommunicators(
      const xla::CliqueKey& key, const std::optional<xla::CliqueIds>&,
      absl::Span<const DeviceRank> ranks, const Config&) override {
    std::vector<std::unique_ptr<xla::Communicator>> made;
    for (const DeviceRank& r : ranks)
      made.push_back(std::make_unique<StoreCommunicator>(
          store_, "collectives/" + key.ToString(), r.rank.value(), key.num_devices()));
    return made;
  }

 private:
  KeyValueStore store_;
};

}  // namespace shim
