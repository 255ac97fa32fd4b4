"""Read conversations and tools in any provider's form into neutral parts, with the readers that
wires declare.
"""
