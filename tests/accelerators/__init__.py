"""Programs as StableHLO, by compilers not our own: `make test-accelerators`.

The tests here need JAX's compiler, or plugins for GPUs and TPUs, so they have an
environment of their own. Each says which tier of docs/design/stablehlo.md it is.
"""
