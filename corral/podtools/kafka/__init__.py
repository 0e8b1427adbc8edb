"""Topics and what is in them: clients, messages, records and weights of learning over Kafka."""
