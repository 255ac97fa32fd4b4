"""Verify a policy against its table: properties, worst cases, and what real calls do on the worst
paths.
"""
