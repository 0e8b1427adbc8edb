"""``kafkaml.corral.dev/v1alpha1``: models, data in topics, federated training over Kafka."""
