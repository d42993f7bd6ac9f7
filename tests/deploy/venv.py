"""venv.py - go on in the environment that tests/deploy/requirements.txt made"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
VENV = os.path.join(O, "tools", "deploy")


def enter():
    """Start this script anew with the environment's Python."""
    python = os.path.join(VENV, "bin", "python")
    if sys.prefix != VENV:
        if not os.path.exists(python):
            print(f"Bail out! no {python}; run: make deps")
            sys.exit(1)
        os.execv(python, [python] + sys.argv)
