"""Converse, of Amazon Bedrock."""
