"""Names that pods resolve: their hosts files, kept up to date."""
