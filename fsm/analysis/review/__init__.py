"""What a change of a policy does: findings, and two renderers."""
