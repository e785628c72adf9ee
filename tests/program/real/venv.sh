# SPDX-License-Identifier: GPL-2.0-only
# A virtual environment of Python, and pip from a local directory. The output is the same on any
# Linux.
export LC_ALL=C PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 HOME=$PWD
mkdir -p wheels demo demo-1.0.dist-info
printf 'def text():\n    return "from the wheel"\n' >demo/__init__.py
printf 'Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n' >demo-1.0.dist-info/METADATA
printf 'Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n' \
	>demo-1.0.dist-info/WHEEL
printf '[console_scripts]\ndemo = demo:text\n' >demo-1.0.dist-info/entry_points.txt
{
	echo demo/__init__.py,,
	for name in METADATA WHEEL entry_points.txt RECORD; do
		echo "demo-1.0.dist-info/$name,,"
	done
} >demo-1.0.dist-info/RECORD
python3 -m zipfile -c wheels/demo-1.0-py3-none-any.whl demo demo-1.0.dist-info
rm -r demo demo-1.0.dist-info
python3 -m venv env && echo "made $?"
env/bin/pip install --quiet --no-index --find-links wheels demo && echo "installed $?"
env/bin/python -c 'import demo, sys; print(demo.text(), sys.prefix != sys.base_prefix)'
env/bin/demo; echo "status $?"
env/bin/pip list --format=freeze | grep demo
env/bin/pip install --quiet --no-index --find-links wheels missing 2>/dev/null; echo "missing $?"
env/bin/pip uninstall --quiet --yes demo && env/bin/python -c 'import demo' 2>/dev/null
echo "gone $?"
python3 -m venv --clear env && env/bin/python -c 'print("anew")'
