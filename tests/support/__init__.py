"""What tests in several rooms share; imported as `support`, for pytest has `tests` on its path."""
