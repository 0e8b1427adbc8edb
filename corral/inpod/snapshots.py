"""Starts `corral.podtools.snapshots`, for pods of earlier versions."""

if __name__ == "__main__":
    import runpy

    runpy.run_module("corral.podtools.snapshots", run_name="__main__", alter_sys=True)
