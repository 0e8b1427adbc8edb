"""The command ``python -m corral.podtools.uploader fetch|deliver``."""

import sys

from corral.podtools.uploader.uploader import main

sys.exit(main())
