"""What pip-audit has found, in a few lines; the exit code is 1 for a hole in a package that pyproject.toml names."""

import json
import re
import sys
from pathlib import Path

report, project = (Path(name).read_text() for name in sys.argv[1:])
try:
    found = json.loads(report)["dependencies"]
except ValueError:
    found = []
audited = [each for each in found if "vulns" in each]
if not audited:
    print("Left out: no advisory database can be reached from here.")
    sys.exit()
own = {name.lower().replace("_", "-") for name in re.findall(r'"([A-Za-z0-9_-]+)(?:\[\w+\])?>=', project)}
holes = [each for each in audited if each["vulns"]]
print(f"{len(audited)} packages audited, {len(found) - len(audited)} unknown to the database, {len(holes)} with holes")
for each in holes:
    fixes = ", ".join(f"{hole['id']} (fixed in {' '.join(hole['fix_versions']) or 'none'})" for hole in each["vulns"])
    print(f"{each['name']} {each['version']}: {fixes}")
sys.exit(any(each["name"].lower().replace("_", "-") in own for each in holes))
