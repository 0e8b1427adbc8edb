"""Starts `corral.podtools.uploader`, for pods of earlier versions."""

if __name__ == "__main__":
    import runpy

    runpy.run_module("corral.podtools.uploader", run_name="__main__", alter_sys=True)
