"""``/kafkaml/NAMESPACE/…``: the REST interface that Kafka-ML has, as views on objects.

There is no other place where anything is kept: a model that is posted here is an MLModel, and one
that was applied with kubectl is listed here. Ids are names of objects; those of results are
``DEPLOYMENT.N``. `table` has the routes, `bodies` and `rows` what bodies mean and answers say.
"""
