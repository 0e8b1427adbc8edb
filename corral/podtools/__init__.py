"""Programs that Corral's own pods run; none of them is imported by a user's program.

`uploader` carries models to and from a task, `snapshots` fills directories from images, `confine`
runs code that is not trusted, `kafka` reads and writes topics, `models` and `kafkaml` train over
Kafka. Unlike `corral.inpod` they need Corral's dependencies. `commands` names what can be started.
"""
