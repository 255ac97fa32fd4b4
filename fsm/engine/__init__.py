"""What runs, records and checks any table. It knows no call."""
