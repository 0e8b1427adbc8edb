"""``python -m corral.podtools.kafkaml.client``: what the image of a client runs."""

from __future__ import annotations

import logging
import os
import sys

from corral.podtools import termination
from corral.podtools.kafkaml.training import Client, ClientError, ClientSettings


def main() -> int:
    """Take part until the last round; says what went wrong, where something did."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        sent = Client(ClientSettings.from_environment(os.environ)).run()
    except ClientError as error:
        logging.error("%s", error)
        _last_words(str(error))
        return 1
    logging.info("done: %d updates were sent", sent)
    return 0


def _last_words(why: str) -> None:
    try:
        termination.write_message(why[:4000])
    except OSError as error:
        logging.debug("nobody reads last words here: %s", error)


if __name__ == "__main__":
    sys.exit(main())
