"""From jaxprs to work items."""
