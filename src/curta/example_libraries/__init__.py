"""Small libraries on top, to read and to change: layers and optimizers."""
