"""What several calls share: the health of the backends. A store holds it; a call looks through its
`Watch`.
"""
