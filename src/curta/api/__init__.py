"""The functions that users call: transformations on pytrees, with their options."""
