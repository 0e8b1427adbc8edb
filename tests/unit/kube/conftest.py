from kube_fake_api import serve

__all__ = ["serve"]
