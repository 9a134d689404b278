// XLA's headers name these types, and the wheel has no headers of LLVM.
#pragma once
namespace mlir {
class Operation;
class MLIRContext;
class ModuleOp {
 public:
  Operation* state;
};
template <class T>
class OwningOpRef {
  T op;
};
}  // namespace mlir
