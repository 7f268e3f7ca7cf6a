"""The wing of what only a human can give: asks, responses, deliveries, boards."""
