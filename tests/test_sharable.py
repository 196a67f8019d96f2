"""The report to send: whose machine it was cannot be told from the paths in it, and no other word is lost."""

from __future__ import annotations

import os
import pwd

import pytest

from portamem.conformance.report import people as people_module
from portamem.conformance.report.people import People, people
from portamem.conformance.report.sharable import anonymous

WHO = People(
    host="node17.cluster.example",
    user="dora",
    accounts=frozenset({"alice", "bob", "carol", "test"}),
    homes=frozenset({"/alice", "/home/bob", "/lustre/people/u17", "/home/john doe"}),
    cwd="/data/my runs",
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        # A home with a space in its name is known as the home of an account.
        ("/home/john doe/x/y.txt", ".../y.txt"),
        ("in '/home/john doe'.", "in '~'."),
        ("'/home/john doe/x/y.txt': no such file", "'.../y.txt': no such file"),
        ("/home/john doesn't", "~ doesn't"),
        # The working folder is cut too.
        ("/data/my runs/out/y.txt, /data/my runs", ".../y.txt, .../my runs"),
        # Names of accounts, as parts of paths.
        ("/lustre/orion/scratch/carol", ".../USER"),
        ("/lustre/orion/scratch/carol/lib.so", ".../lib.so"),
        ("no room in /scratch/carol.", "no room in .../USER."),
        ("scratch/carol/lib.so", "scratch/USER/lib.so"),
        ("/lustre/people/u17: full", "~: full"),
        # A folder of a home by its short name.
        ("~bob/lib.so", ".../lib.so"),
        ("~erin/lib.so", ".../lib.so"),
        ("~/x/lib.so", ".../lib.so"),
        ("~bob", "~"),
        # At the root.
        ("/alice", "~"),
        ("/carol", "/USER"),
        ("/carol/lib.so", ".../lib.so"),
        ("/home/erin", "~"),
        # Names of the user and of the host, everywhere.
        ("dora on node17", "USER on HOST"),
    ],
)
def test_people_are_cut(text: str, clean: str) -> None:
    assert anonymous(text, WHO) == clean


@pytest.mark.parametrize(
    "text",
    [
        "alice, bob and carol test it: 3 test cases, pass/test",
        "test.alloc_limits, checks/alloc.py:30",
        "about ~5 GiB, ~half of it, at ~",
        "portamem::~Buffer() and ~Buffer",
        "in /tmp or /dev",
        "4096/256 = 16 and/or N/A",
        "https://example.org/home/bob/carol",
        "...",
        "/...",
    ],
)
def test_words_stay(text: str) -> None:
    assert anonymous(text, WHO) == text


def test_nobody_is_known() -> None:
    assert anonymous("/opt/rocm/lib/libamdhip64.so of alice", People()) == ".../libamdhip64.so of alice"


def account(name: str, uid: int, home: str) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, uid, "", home, "/bin/sh"))


def test_people_are_those_of_the_password_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's own accounts have words for names, and "/" or nothing for a home."""
    everybody = [
        account("bin", 2, "/bin"),
        account("carol", 1000, "/lustre/people/carol/"),
        account("robot", 1001, "/"),
        account("homeless", 1002, ""),
        account("nobody", 65534, "/nonexistent"),
    ]
    monkeypatch.setattr(pwd, "getpwall", lambda: everybody)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: account("dora", uid, "/data/dora"))
    monkeypatch.setenv("HOME", "/somewhere/else")
    monkeypatch.setattr(os, "getcwd", lambda: "/data/my runs")
    found = people()
    assert found.accounts == {"carol", "robot", "homeless", "dora"}
    assert found.homes == {"/lustre/people/carol", "/data/dora", "/somewhere/else"}
    assert found.cwd == "/data/my runs"


def test_a_process_that_is_nobody_and_nowhere_is_anonymous_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object) -> None:
        raise KeyError("no such account")

    def removed() -> str:
        raise FileNotFoundError("the folder was removed")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr(pwd, "getpwall", list)
    monkeypatch.setattr(people_module.getpass, "getuser", unknown)
    monkeypatch.setattr(os, "getcwd", removed)
    monkeypatch.setenv("USER", "zoe")
    monkeypatch.setenv("HOME", "/")
    found = people()
    assert (found.user, found.accounts, found.homes, found.cwd) == ("zoe", frozenset(), frozenset(), "")
    assert anonymous("zoe was in /opt/x/y", found) == "USER was in .../y"
