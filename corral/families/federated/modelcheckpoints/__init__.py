"""ModelCheckpoint: whether the model that it names can be pulled, and how large it is."""
