"""The parts that run a call: observe, fire, record, propose."""
