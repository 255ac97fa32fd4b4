"""What many journals come to: counts, and how they are shown."""
