"""Read conversations and tools in any provider's form into neutral parts.

Each wire declares the readers of its own form; the code here names no protocol.
"""
