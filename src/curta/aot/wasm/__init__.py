"""WebAssembly: a linker of relocatable objects, and ES modules that call the code."""
