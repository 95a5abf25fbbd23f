"""Until the command is ready to tell of a stop, Ctrl-C ends it at once, without a traceback.

Imported before everything else: the command's own imports take a few tenths of a second, in which
nothing has begun that would have to be stopped.
"""

import signal
import sys
from pathlib import Path

if Path(sys.argv[0]).name == "keyspread":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
