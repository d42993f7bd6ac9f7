#!/usr/bin/env python3
"""pictures.t - the images of README: made of the screens, well-formed, there"""
import os
import subprocess
import sys
import tempfile
import xml.dom.minidom

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
O = os.path.abspath(os.environ.get("O", os.path.join(ROOT, "build")))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from tap import check, end  # noqa: E402

WORDS = {"1-overview": "IN THE VALLEY", "3-experts": "effective",
         "6-valley": "replicas"}


def words_of(svg):
    return " ".join(t.firstChild.data
                    for t in svg.getElementsByTagName("text"))


with tempfile.TemporaryDirectory() as tmp:
    for name, words in WORDS.items():
        number, screen = name.split("-")
        path = os.path.join(tmp, f"{screen}.svg")
        text = subprocess.run([f"{O}/tests/term/picture", "near", number,
                               "120", "40", "dark"], check=True,
                              capture_output=True).stdout
        subprocess.run([f"{ROOT}/tools/screenshot.py", screen, path],
                       input=text, check=True)
        drawn = words_of(xml.dom.minidom.parse(path))
        kept = words_of(xml.dom.minidom.parse(
            f"{ROOT}/docs/screens/{screen}.svg"))
        check(f"the {screen} screen as an image has its words",
              words in drawn, drawn[:300])
        check(f"docs/screens/{screen}.svg is such an image", words in kept,
              kept[:300])
readme = open(os.path.join(ROOT, "README.md"), encoding="utf-8").read()
check("README shows all three", all(f"docs/screens/{n.split('-')[1]}.svg"
                                    in readme for n in WORDS))
end()
