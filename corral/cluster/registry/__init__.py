"""A small OCI registry: models, updates and WebAssembly modules as artifacts, in one folder.

Guarantees:

- What is stored under a digest has that digest. A blob or manifest is there whole or not at all,
  and once it is answered for it outlives ``kill -9`` and the loss of power.
- An upload can be gone on with, also after a restart of the registry.
- Collection never takes what a manifest refers to, nor what an upload under way may need.
- Callers are whom the API server says they are; nobody else is served, unless that is asked for.
- Memory does not grow with the size of blobs.

Read next: `store` for what is kept and how, `catalog` for who refers to what, `app` for the
distribution API, `access` for who may do what, `local` for the part in ``corral up``.
"""
