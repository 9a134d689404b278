"""LLVM IR text: types, a builder, vector math, and the machine it is for."""
