"""What many journals come to: counts in bounded memory, and a chart of them."""
