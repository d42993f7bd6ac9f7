"""watching.py - what moetop says while it watches a server"""
import itertools
import json
import signal
import subprocess


def watch(command, enough, most, **how):
    """Lines of a moetop with --json until they are enough, which is asked after
    each: (exit status, what it said, lines)"""
    p = subprocess.Popen(command, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, **how)
    lines = []
    for text in itertools.islice(p.stdout, most):
        lines.append(json.loads(text))
        if enough(lines):
            break
    p.send_signal(signal.SIGINT)
    _, err = p.communicate(timeout=60)
    return p.returncode, err, lines
