"""Calls that outlive their process, on DBOS: recorded step by step, and taken on by whoever is
alive.
"""
