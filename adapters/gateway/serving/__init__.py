"""What the proxy needs to serve many: who asks and what they may, keys from files, files that are
read again, requests of web pages, and requests beside model calls.
"""
