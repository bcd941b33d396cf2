"""``python -m gpubuild``: the same program as the ``gpubuild`` command."""

import sys

from gpubuild.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
