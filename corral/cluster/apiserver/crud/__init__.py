"""Create, read, update, patch and delete for every kind, with the semantics of Kubernetes.

``kind.Kind`` is what one kind brings (its types, defaults, validation); ``read``, ``write`` and
``delete`` are the verbs, the same for all. Nothing here knows HTTP.
"""
