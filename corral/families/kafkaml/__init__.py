"""Federated learning over Kafka: the controllers of ``kafkaml.corral.dev``.

`models` has code checked in a sandbox, `deployments` finds data for a model and has it
trained by pods, `inferences` has trained models answer. No model code and no weights come near the
operator: they are in pods (`corral.podtools.kafkaml`), in topics and in a registry.
"""
