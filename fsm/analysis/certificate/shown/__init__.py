"""Present a policy and its certificate: text, Markdown, pictures, a page to play on, and scripts of
worst cases.
"""
