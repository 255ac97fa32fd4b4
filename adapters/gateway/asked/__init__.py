"""What requests ask for, field by field: what protocols share, and those with many fields."""
