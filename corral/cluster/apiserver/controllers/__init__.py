"""Controllers that belong to the API server itself.

Garbage collection, namespaces, custom resource definitions, default service accounts, aggregated
cluster roles, the life of events. They follow the store directly and write through the same verbs
as everybody else.
"""
