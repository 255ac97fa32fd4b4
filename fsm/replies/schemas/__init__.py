"""What fits a JSON schema or type hints, and what does not, in words; bounded, whatever a stranger
sends.
"""
