"""Record batches on disk.

A topic has a folder named by its id, a partition one inside it. A partition is a row of segments:
``BASE.log`` has the batches as they came, ``BASE.state`` says how far they are known to be whole,
with an index and what idempotent producers sent last. What is behind that mark is read and checked
at the start; a torn end is cut off.
"""
