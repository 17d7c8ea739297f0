#!/bin/sh
# msit 8.2.0, as the package index has it, has no "msit debug compare": the group debug is empty, and
# the command that the guides name is refused. Ends with 0 while that is so, with 1 once it has
# changed.
set -e
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q msit==8.2.0
echo "msit 8.2.0: expected the help of debug compare, seen:"
"$folder/env/bin/msit" debug compare --help 2>&1 | head -3
"$folder/env/bin/msit" debug compare -gm net.onnx -om net.om > "$folder/log" 2>&1 && exit 1
tail -1 "$folder/log"
grep -q "unrecognized arguments: compare" "$folder/log"
