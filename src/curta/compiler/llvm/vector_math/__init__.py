"""Vector math in LLVM IR."""
