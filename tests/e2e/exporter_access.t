#!/usr/bin/python3
"""exporter_access.t - --web.config.file: TLS, client certificates, passwords

With curl and with a real Prometheus, right and wrong, expired and changed while
it runs; nothing is said to anybody without what the file asks for.
"""
# time limit: 600 s
import crypt
import os
import re
import subprocess
import tempfile
import threading
import time
import warnings

import scrape
import tap
from scrape import wait
from tap import check

warnings.simplefilter("ignore")
NOTHING = re.compile("moetop_[a-z]")


class Authority:
    """A CA in a folder, and what it signs."""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                 "-subj", f"/CN={name}", "-keyout", self.path(name, "key"),
                 "-out", self.path(name, "crt"))

    def path(self, name, end):
        return f"{self.folder}/{name}.{end}"

    def run(self, *args):
        subprocess.run(["openssl", *args], check=True, capture_output=True)

    def sign(self, name, use, days="2", san="DNS:localhost,IP:127.0.0.1"):
        """A key and a certificate; days below 0: long over."""
        with open(self.path(name, "ext"), "w") as f:
            f.write(f"subjectAltName={san}\nextendedKeyUsage={use}\n")
        self.run("req", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
                 f"/CN={name}", "-keyout", self.path(name, "key"), "-out",
                 self.path(name, "csr"))
        self.run("x509", "-req", "-in", self.path(name, "csr"), "-CA",
                 self.path(self.name, "crt"), "-CAkey",
                 self.path(self.name, "key"), "-CAcreateserial", "-days",
                 days, "-extfile", self.path(name, "ext"), "-out",
                 self.path(name, "crt"))


def bcrypt(password, cost=5):
    return crypt.crypt(password, crypt.mksalt(crypt.METHOD_BLOWFISH,
                                              rounds=2 ** cost))


class Exporter:
    def __init__(self, folder, sim):
        self.folder, self.sim = folder, sim
        self.web = f"{folder}/web.yml"
        self.top = self.port = None

    def write(self, text):
        # a new file takes the place of the old one, as an editor does it
        with open(self.web + ".new", "w") as f:
            f.write(text)
        os.rename(self.web + ".new", self.web)

    def start(self, text):
        self.write(text)
        self.stop()
        self.log = open(f"{self.folder}/moetop.log", "w+")
        self.top, self.port = scrape.start_moetop(
            "-p", str(self.sim.pid), "--headless", "--no-inject", "--no-bpf",
            "--web.config.file", self.web, stderr=self.log)

    def stop(self):
        if self.top:
            self.top.terminate()
            self.top.wait()

    def curl(self, *options, path="/metrics", scheme="http"):
        """Status (0: none), all that came."""
        r = subprocess.run(
            ["curl", "-s", "-m", "60", "--noproxy", "*", "-w", "\n%{http_code}",
             *options, f"{scheme}://localhost:{self.port}{path}",
             "--resolve", f"localhost:{self.port}:127.0.0.1"],
            capture_output=True, text=True)
        body, status = r.stdout.rsplit("\n", 1)
        return int(status), body

    def said(self):
        self.log.seek(0)
        return self.log.read()


def passwords(x):
    good, other = bcrypt("secret"), bcrypt("other", 4)
    x.start(f"basic_auth_users:\n  alice: {good}\n  bob: {other}\n")
    ok = wait(lambda: x.curl("-u", "alice:secret")[0] == 200)
    check("the right password is let in", ok, x.said())
    check("so is another user's", x.curl("-u", "bob:other")[0] == 200)
    wrong = [x.curl(*o, path=p) for p in ("/metrics", "/", "/healthz",
                                          "/readyz", "/snapshot.json", "/x")
             for o in ((), ("-u", "alice:Secret"), ("-u", "alice:other"),
                       ("-u", "mallory:secret"), ("-u", "alice:"),
                       ("-H", "Authorization: Bearer x"),
                       ("-X", "POST"))]
    check("nobody else is told anything, on any path", all(
        s == 401 and "moetop_" not in b and "ok" not in b
        for s, b in wrong), wrong)
    x.write(f"basic_auth_users:\n  alice: {other}\n")
    check("a changed file holds at the next request",
          x.curl("-u", "alice:secret")[0] == 401 and
          x.curl("-u", "alice:other")[0] == 200 and
          x.curl("-u", "bob:other")[0] == 401)
    x.write("basic_auth_users:\n  alice: plain\n")
    got = [x.curl(*o) for o in ((), ("-u", "alice:other"),
                                ("-u", "alice:plain"))]
    check("a broken one lets nobody in", all(
        s == 500 and not NOTHING.search(b) for s, b in got), got)
    x.write("")
    check("nor does one that is empty, and would ask for nothing",
          x.curl()[0] == 500 and x.curl("-u", "alice:other")[0] == 500)
    os.rename(x.web, x.web + ".away")
    check("so does one that is gone", x.curl("-u", "alice:other")[0] == 500)
    x.write(f"basic_auth_users:\n  alice: {good}\n")
    check("one that is right again is believed",
          x.curl("-u", "alice:secret")[0] == 200)
    said = x.said()
    check("the log has a line for each change", said.count("web.yml") >= 4 and
          "line 2" in said and "no bcrypt hash" in said and
          "secret" not in said, said)


def guess(x, crowd, results):
    """One after the other, each another one, until the crowd is told to stop."""
    n = 0
    while not crowd.is_set():
        n += 1
        name = f"alice:{threading.get_ident()}-{n}"
        results.append(x.curl("-m", "15", "-u", name)[0])
        if results[-1] == 503:
            time.sleep(.05)


def cpu_s(pid):
    """Processor time of all its threads."""
    total = 0
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def costs(x):
    """Processor seconds of a scrape by one who is known, and of a bcrypt."""
    scrapes, hashes = [], []
    for _ in range(9):
        before = cpu_s(x.top.pid)
        x.curl("-u", "alice:secret")
        scrapes.append(cpu_s(x.top.pid) - before)
    for _ in range(3):
        before = time.thread_time()
        bcrypt("secret", 10)
        hashes.append(time.thread_time() - before)
    return sorted(scrapes)[4], min(hashes)


def attacked(x, folder):
    """Guessing does not keep out those who know."""
    slow = bcrypt("secret", 10)
    x.start(f"basic_auth_users:\n  alice: {slow}\n")
    wait(lambda: x.curl("-u", "alice:secret")[0] == 200)
    scrape_s, hash_s = costs(x)
    check("one that is known costs no bcrypt again", scrape_s < hash_s / 3,
          (scrape_s, hash_s))
    crowd, guesses = threading.Event(), []
    threads = [threading.Thread(target=guess, args=(x, crowd, guesses))
               for _ in range(24)]
    for t in threads:
        t.start()
    wait(lambda: guesses.count(401) > 1 and guesses.count(503) > 1)
    before, start = guesses.count(401), time.monotonic()
    known = [x.curl("-u", "alice:secret")[0] for _ in range(20)]
    passed = time.monotonic() - start
    hashed = guesses.count(401) - before
    crowd.set()
    for t in threads:
        t.join()
    print(f"# 20 scrapes in {passed:.2f} s and {hashed} bcrypts among guesses:"
          f" { {s: guesses.count(s) for s in set(guesses)} }")
    check("guesses are refused or put off, some until they give up",
          set(guesses) <= {401, 503, 0}, set(guesses))
    check("meanwhile who is known is served, and waits for none of them",
          known == [200] * 20 and hashed < 15, (known, hashed, passed))


def tls(x, ca, folder):
    text = ("tls_server_config:\n  cert_file: server.crt\n"
            "  key_file: server.key\n")
    ca.sign("server", "serverAuth")
    x.start(text)
    trust = ("--cacert", ca.path("ca", "crt"))
    ok = wait(lambda: x.curl(*trust, scheme="https")[0] == 200)
    check("TLS is served", ok, x.said())
    check("plain HTTP is not", x.curl()[0] == 0 and
          not NOTHING.search(x.curl()[1]))
    check("TLS 1.1 is too old",
          x.curl(*trust, "--tls-max", "1.1", "--ciphers",
                 "DEFAULT:@SECLEVEL=0", scheme="https")[0] == 0 and
          x.curl(*trust, "--tls-max", "1.2", scheme="https")[0] == 200)
    ca.sign("server", "serverAuth", "-1")
    check("a certificate that has expired is told from a good one",
          x.curl(*trust, scheme="https")[0] == 0)
    ca.sign("server", "serverAuth")
    check("a new one holds at the next connection",
          x.curl(*trust, scheme="https")[0] == 200)
    with open(ca.path("server", "key"), "w") as f:
        f.write("no key\n")
    check("with a broken key nothing is served",
          x.curl("-k", scheme="https")[0] == 0)
    ca.sign("server", "serverAuth")
    x.write("basic_auth_users:\n  alice: " + bcrypt("secret") + "\n")
    got = x.curl("-k", "-u", "alice:secret", scheme="https"), x.curl(
        "-u", "alice:secret")
    check("TLS cannot be taken away while it runs",
          all(s in (0, 500) and not NOTHING.search(b) for s, b in got), got)


def client_certificates(x, ca, folder):
    stranger = Authority(folder, "stranger")
    ca.sign("client", "clientAuth", san="DNS:prometheus.example")
    ca.sign("old", "clientAuth", "-1", san="DNS:prometheus.example")
    ca.sign("wronguse", "serverAuth", san="DNS:prometheus.example")
    ca.sign("other", "clientAuth", san="DNS:other.example")
    stranger.sign("foreign", "clientAuth", san="DNS:prometheus.example")
    begin = "tls_server_config:\n  cert_file: server.crt\n" \
            "  key_file: server.key\n"
    asks = "  client_ca_file: ca.crt\n" \
           "  client_auth_type: RequireAndVerifyClientCert\n" \
           "  client_allowed_sans: [prometheus.example]\n"
    users = "basic_auth_users:\n  alice: " + bcrypt("secret") + "\n"
    x.start(begin + asks + users)

    def ask(name=None, user="alice:secret"):
        o = ["--cacert", ca.path("ca", "crt"), "-u", user]
        if name:
            o += ["--cert", ca.path(name, "crt"), "--key",
                  ca.path(name, "key")]
        return x.curl(*o, scheme="https")

    ok = wait(lambda: ask("client")[0] == 200)
    check("the right certificate and password are let in", ok, x.said())
    check("the certificate alone is not enough",
          ask("client", "alice:no")[0] == 401)
    for name, what in ((None, "none"), ("old", "one that has expired"),
                       ("foreign", "one of another authority"),
                       ("wronguse", "one for servers"),
                       ("other", "one of another name")):
        got = ask(name)
        check(f"a client certificate is needed: {what} ends the handshake",
              got[0] == 0 and got[1] == "", got)
    for text in (begin + users, begin + asks, begin):
        x.write(text)
        check("a file that asks for less than the one before it lets nobody"
              " in", ask()[0] == 0 and ask("client")[0] == 0)
    x.write(begin + asks + users)
    check("until the whole one is back", ask("client")[0] == 200)


def prometheus(x, ca, folder):
    os.makedirs(f"{folder}/p")
    secure = ["scheme: https", "tls_config:",
              f"  ca_file: {ca.path('ca', 'crt')}", "  server_name: localhost"]
    with_cert = [f"  cert_file: {ca.path('client', 'crt')}",
                 f"  key_file: {ca.path('client', 'key')}"]
    user = ["basic_auth:", "  username: alice", "  password: secret"]
    wrong = ["basic_auth:", "  username: alice", "  password: guess"]
    at = f"127.0.0.1:{x.port}"
    p = scrape.Prometheus(f"{folder}/p", {
        "good": (at, secure + with_cert + user),
        "password": (at, secure + with_cert + wrong),
        "nocert": (at, secure + user),
        "plain": (at, user)})
    wait(p.up)

    def ever_up():
        """A scrape may be late, but is never let in by mistake."""
        return {dict(k)["job"]: v for k, v in
                p.query("max_over_time(up[1h])").items()}
    wait(lambda: len(ever_up()) == 4 and ever_up()["good"])
    up = ever_up()
    check("Prometheus with both gets in, without either it does not",
          up == {"good": 1, "password": 0, "nocert": 0, "plain": 0}, up)
    p.process.kill()
    p.process.wait()


def refused(x):
    for text, words in (("a: b\n", "'a' is no key"),
                        ("tls_server_config: {cert_file: no.crt, key_file: "
                         "no.key}\n", "No such file")):
        x.write(text)
        r = subprocess.run(
            [f"{scrape.O}/moetop", "-p", str(x.sim.pid), "--headless",
             "--listen", "0", "--web.config.file", x.web],
            capture_output=True, text=True, timeout=120)
        check(f"a file that cannot be used is one line: {words}",
              r.returncode == 1 and r.stderr.count("\n") == 1 and
              words in r.stderr, (r.returncode, r.stderr))


def main():
    sim, _ = scrape.start_sim("--users", "1", agent=False, model="qwen3-30b")
    with tempfile.TemporaryDirectory() as folder:
        x = Exporter(folder, sim)
        refused(x)
        passwords(x)
        attacked(x, folder)
        ca = Authority(folder, "ca")
        tls(x, ca, folder)
        client_certificates(x, ca, folder)
        prometheus(x, ca, folder)
        x.stop()
        check("moetop ends well", x.top.returncode == 0, x.said())
        scrape.end_all()
    tap.end()


if __name__ == "__main__":
    main()
