"""Servers, clients and inference of federated learning over Kafka, each the program of a pod."""
