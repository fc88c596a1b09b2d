"""Other people's clients, unmodified, against three brokers of the shipped cluster."""
