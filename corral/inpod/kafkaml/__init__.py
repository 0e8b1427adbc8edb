"""What runs in the pods of federated learning over Kafka."""
