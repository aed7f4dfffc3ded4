"""The Chinese site."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from settings import *  # noqa: F403 - Sphinx reads the names of this module

language = "zh_CN"
