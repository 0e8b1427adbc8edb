"""Cloud providers behind one interface. No Kubernetes in it."""
