"""From jaxprs to machine code."""
