"""What a user calls: the transformations on pytrees, with their options."""
