"""PodSecurity: the Pod Security Standards, chosen per namespace by labels."""
