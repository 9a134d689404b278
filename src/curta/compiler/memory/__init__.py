"""Memory: what works read and write, and where their buffers lie."""
