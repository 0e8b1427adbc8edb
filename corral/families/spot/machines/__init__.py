"""SpotInstanceVM: machines of clouds, made, joined as nodes, watched and deleted."""
