"""How tests of faults start poolcli."""

from __future__ import annotations

from tests.processes import forked, fresh
from tests.profiles import sized

poolcli = sized(forked, fresh)  # what starts in a tenth of the time, or what a user starts
