"""LLVM IR of whole programs."""
