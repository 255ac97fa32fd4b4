"""Conversations and tools as callers write them, in any provider's form, read into neutral parts."""
