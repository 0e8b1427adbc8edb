"""Starts the program of `corral.podtools.kafkaml`, for pods of earlier versions."""

if __name__ == "__main__":
    import runpy

    runpy.run_module("corral.podtools.kafkaml.server", run_name="__main__", alter_sys=True)
