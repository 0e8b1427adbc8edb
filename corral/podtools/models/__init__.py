"""A user's model over Kafka: its code runs in a confined process, to be checked, trained, asked."""
