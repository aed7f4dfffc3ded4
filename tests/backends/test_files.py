"""Files of an output are put in place together: killed at any step, raced, refused, on odd file systems."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest

from regraft.formats.files import settle, staged
from regraft.ir import UsageError
from regraft.ir.outside.own_folders import sweep

NAMES = ["model.py", "model.ckpt", "renames.json", "test_model.py"]

KILLED_AT_EVERY_STEP = """
    import os, shutil, signal, sys
    from pathlib import Path
    from regraft.formats.files import settle, staged

    base, force, names = Path(sys.argv[1]), sys.argv[2] == "force", sys.argv[3:]
    STEPS = ("open", "os.", "shutil.", "fcntl.")
    armed = 0

    def count(event, _):
        global armed
        if armed and event.startswith(STEPS):
            armed -= 1
            if not armed:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    os.fsync = lambda _: None  # what it adds is for power failures

    def seen(folder):
        return {n: (folder / n).read_text() for n in names if (folder / n).exists()}

    def run(folder, step):
        global armed
        armed = step
        with staged(folder, list(whole_new), force=force, obsolete=obsolete) as new:
            for name in whole_new:
                (new / name).write_text("new " + name)
        armed = 0

    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    without_links = bool(os.environ["WITHOUT_LINKS"])
    obsolete = [n for n in names if n.startswith("obsolete")]
    whole_new = {n: "new " + n for n in names if n not in obsolete}
    found = []
    if without_links:
        Path.hardlink_to = refused
    for step in range(1, 10_000):
        folder = base / f"{step}" / "out"
        shutil.copytree(base / "before", folder, symlinks=True)
        before = seen(folder)
        child = os.fork()
        if not child:
            run(folder, step)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        state = seen(folder)
        assert without_links or state in (before, whole_new), (step, state)
        assert (folder / "README").read_text() == "the user's"
        settle(folder)
        state = seen(folder) if without_links else state
        assert state in (before, whole_new), (step, state)
        assert seen(folder) == state, (step, seen(folder))
        left = {p.name for p in folder.iterdir()}
        assert left == {*state, "README"}, (step, left)
        expected = {n for n in os.listdir(base / "before") if (base / "before" / n).is_symlink()}
        links = {p.name for p in folder.iterdir() if p.is_symlink()}
        assert links == (expected if state == before else set()), (step, links)
        found.append(state == whole_new)
        if os.waitstatus_to_exitcode(status) == 0:
            break
    assert found == sorted(found), "the change happens once"
    print(step, sum(found))
"""


def killed_at_every_step(base: Path, force: str, *names: str, without_links: bool = False) -> tuple[int, int]:
    """The number of steps at which a change was killed, and of those after which it was whole.

    The steps are counted: nobody else's temporary folders may be among those that a run sweeps.
    """
    (base / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED_AT_EVERY_STEP), str(base), force, *names],
        env={**os.environ, "WITHOUT_LINKS": "1" if without_links else "", "TMPDIR": str(base / "tmp")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    steps, new = map(int, done.stdout.split())
    return steps, new


def make_folder(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(f"old {name}")
    (folder / "README").write_text("the user's")
    return folder


def write_new(
    folder: Path, *, force: bool = True, names: list[str] = NAMES, meanwhile: Path | None = None
) -> None:
    """Write files anew; a file of the user's may appear `meanwhile`."""
    with staged(folder, names, force=force) as new:
        for name in names:
            (new / name).write_text(f"new {name}")
        if meanwhile is not None:
            meanwhile.parent.mkdir(exist_ok=True)
            meanwhile.write_text("the user's")


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_kill_at_any_step_leaves_all_old_or_all_new_files(tmp_path: Path) -> None:
    """Some files are replaced and some are new; the next run leaves no trace of the killed one."""
    make_folder(tmp_path / "before", *NAMES[:3])
    steps, new = killed_at_every_step(tmp_path, "force", *NAMES)
    assert steps > 40
    assert 10 < new < steps - 20


def test_a_kill_at_any_step_leaves_obsolete_files_with_the_old_ones_alone(tmp_path: Path) -> None:
    names = ["model.py", "obsolete-1", "obsolete-2"]
    make_folder(tmp_path / "before", *names)
    steps, new = killed_at_every_step(tmp_path, "force", *names)
    assert steps > 40
    assert 10 < new < steps - 20


def test_obsolete_files_stay_unless_files_may_be_replaced(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out", "obsolete")
    with staged(folder, ["model.py"], obsolete=["obsolete"]) as new:
        (new / "model.py").write_text("new")
    assert contents(folder)["obsolete"] == "old obsolete"
    with staged(folder, ["model.py"], force=True, obsolete=["obsolete"]) as new:
        (new / "model.py").write_text("newer")
    assert contents(folder) == {"model.py": "newer", "README": "the user's"}


def test_a_kill_at_any_step_of_a_first_output_leaves_none_or_all_of_its_files(tmp_path: Path) -> None:
    make_folder(tmp_path / "before")
    steps, new = killed_at_every_step(tmp_path, "once", *NAMES)
    assert 0 < new < steps


def test_a_kill_at_any_step_keeps_links_that_the_user_made(tmp_path: Path) -> None:
    make_folder(tmp_path / "before", "model.py")
    (tmp_path / "weights").write_text("old elsewhere")
    (tmp_path / "before" / "renames.json").symlink_to(tmp_path / "weights")
    (tmp_path / "before" / "model.ckpt").symlink_to("../../weights")
    steps, _ = killed_at_every_step(tmp_path, "force", *NAMES[:3])
    assert steps > 40
    assert (tmp_path / "weights").read_text() == "old elsewhere"


def test_a_folder_that_does_not_exist_appears_with_its_files(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "out"
    with staged(folder, NAMES[:2]) as new:
        for name in (*NAMES[:2], "other"):
            (new / name).write_text(name)
        assert not (tmp_path / "a").exists()
    assert contents(folder) == {name: name for name in NAMES[:2]}
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_an_error_in_the_block_leaves_everything_as_it_was(tmp_path: Path) -> None:
    def interrupted(target: Path) -> None:
        with staged(target, NAMES, force=True) as new:
            (new / NAMES[0]).write_text("half")
            raise KeyboardInterrupt

    folder = make_folder(tmp_path / "out", *NAMES)
    before = contents(folder)
    for target in (folder, tmp_path / "none" / "out"):
        with pytest.raises(KeyboardInterrupt):
            interrupted(target)
    assert contents(folder) == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("place", ["out", "none/out"])
def test_what_a_disk_refuses_when_it_is_flushed_is_no_output(
    code: int, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As disks of a network do, which take more than they have until then."""
    before = contents(make_folder(tmp_path / "out", *NAMES))

    def refuse(_: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match=re.escape(os.strerror(code))):
        write_new(tmp_path / place)
    monkeypatch.undo()
    settle(tmp_path / "out", tmp_path)
    assert contents(tmp_path / "out") == before
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_a_disk_that_cannot_be_flushed_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(_: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", cannot)
    write_new(tmp_path / "out")
    assert sorted(contents(tmp_path / "out")) == sorted(NAMES)


def test_an_error_between_the_steps_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a full disk, when the second link is to be made."""
    folder = make_folder(tmp_path / "out", *NAMES)
    before, made, symlink_to = contents(folder), [], Path.symlink_to

    def full(self: Path, target: str | Path, target_is_directory: bool = False) -> None:
        made.append(self)
        if len(made) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        symlink_to(self, target, target_is_directory)

    monkeypatch.setattr(Path, "symlink_to", full)
    with pytest.raises(OSError, match="No space"):
        write_new(folder)
    assert contents(folder) == before


def test_files_that_appear_while_others_are_made_are_not_replaced(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out")
    for names in (NAMES, NAMES[:1]):
        with pytest.raises(UsageError, match="exists already"):
            write_new(folder, force=False, names=names, meanwhile=folder / names[-1])
        assert contents(folder) == {"README": "the user's", names[-1]: "the user's"}
        (folder / names[-1]).unlink()


def test_a_folder_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exists already"):
        write_new(tmp_path / "out", meanwhile=tmp_path / "out" / "theirs")
    assert contents(tmp_path / "out") == {"theirs": "the user's"}


def test_of_two_that_write_the_same_files_one_is_whole(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out", *NAMES)
    errors: list[BaseException] = []

    def write(text: str) -> None:
        try:
            for _ in range(8):
                with staged(folder, NAMES, force=True) as new:
                    for name in NAMES:
                        (new / name).write_text(text)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len({(folder / name).read_text() for name in NAMES}) == 1
    assert sorted(p.name for p in folder.iterdir()) == sorted([*NAMES, "README"])


def test_permissions_of_replaced_files_are_kept(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out", *NAMES)
    (folder / NAMES[1]).chmod(0o640)
    (folder / NAMES[2]).chmod(0o444)
    write_new(folder)
    assert [(folder / n).stat().st_mode & 0o777 for n in NAMES[1:3]] == [0o640, 0o444]


def test_a_linked_folder_and_the_working_directory_are_written_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_folder(tmp_path / "real", *NAMES)
    inode = folder.stat().st_ino
    (tmp_path / "link").symlink_to("real")
    write_new(tmp_path / "link")
    monkeypatch.chdir(folder)
    write_new(Path())
    assert contents(folder) == {**{n: f"new {n}" for n in NAMES}, "README": "the user's"}
    assert (folder.stat().st_ino, (tmp_path / "link").is_symlink()) == (inode, True)


def test_without_links_the_next_run_completes_what_was_killed(tmp_path: Path) -> None:
    """On FAT: one rename a file, and a mix of files until the next run."""
    make_folder(tmp_path / "before", *NAMES[:3])
    steps, new = killed_at_every_step(tmp_path, "force", *NAMES, without_links=True)
    assert 5 < new < steps - 20


def test_without_links_files_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    folder = make_folder(tmp_path / "out", *NAMES)
    monkeypatch.setattr(Path, "symlink_to", refuse)
    (folder / "obsolete").write_text("old")
    with staged(folder, NAMES, force=True, obsolete=["obsolete"]) as new:
        for name in NAMES:
            (new / name).write_text(f"new {name}")
    assert contents(folder) == {**{n: f"new {n}" for n in NAMES}, "README": "the user's"}


class TestSweep:
    def test_what_another_process_holds_stays_until_it_is_killed(self, tmp_path: Path) -> None:
        code = (
            "import sys, time\nfrom pathlib import Path\n"
            "from regraft.ir.outside.own_folders import OwnFolder\n"
            "folder = OwnFolder(Path(sys.argv[1]), 'regraft-')\n"
            "print(folder.path, flush=True); time.sleep(60)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            folder = Path(process.stdout.readline().strip())
            (folder / "inner").mkdir()
            sweep(tmp_path)
            assert folder.is_dir()
            process.send_signal(signal.SIGKILL)
            process.wait()
        sweep(tmp_path)
        assert not list(tmp_path.iterdir())

    def test_a_run_without_temporary_files_sweeps_them_too(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As one that does not verify, after one that was killed while it did."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
        left = tmp_path / "tmp" / "regraft-0123456789ab"
        left.mkdir(parents=True)
        (left / "regraft.json").write_text(json.dumps({"made by": "regraft"}))
        write_new(make_folder(tmp_path / "out"))
        assert not left.exists()

    @pytest.mark.parametrize("name", ["regraft-notes", "regraft-0123456789ab", ".regraft-0123456789ab"])
    def test_folders_of_the_user_stay(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes").write_text("the user's")
        (tmp_path / name / "regraft.json").write_text(json.dumps({"made by": "me"}))
        sweep(tmp_path)
        assert (tmp_path / name / "notes").is_file()

    def test_a_link_to_a_folder_elsewhere_stays(self, tmp_path: Path) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "regraft.json").write_text(json.dumps({"made by": "regraft"}))
        (tmp_path / "regraft-0123456789ab").symlink_to(elsewhere)
        sweep(tmp_path)
        assert (elsewhere / "regraft.json").is_file()

    def test_a_mark_that_names_files_elsewhere_moves_nothing(self, tmp_path: Path) -> None:
        """A folder that came with an archive is hostile input."""
        out = make_folder(tmp_path / "out", "model.py")
        hostile = out / ".regraft-0123456789ab"
        (hostile / "new").mkdir(parents=True)
        (hostile / "new" / "model.py").write_text("theirs")
        (hostile / "regraft.json").write_text(
            json.dumps({"made by": "regraft", "files": ["../../victim", "/etc/x", "a/b", 3]})
        )
        (tmp_path / "victim").write_text("the user's")
        settle(out)
        assert (tmp_path / "victim").read_text() == "the user's"
        assert (out / "model.py").read_text() == "old model.py"

    @pytest.mark.parametrize("inner", ["new", "now"])
    def test_links_out_of_a_folder_of_ours_are_not_followed(self, tmp_path: Path, inner: str) -> None:
        out, hostile = make_folder(tmp_path / "out"), tmp_path / "out" / ".regraft-0123456789ab"
        make_folder(tmp_path / "secrets", "key")
        hostile.mkdir()
        (hostile / inner).symlink_to(tmp_path / "secrets")
        (out / "key").symlink_to(f"{hostile.name}/now/key")
        document = {"made by": "regraft", "files": ["key"], "each": inner == "new"}
        (hostile / "regraft.json").write_text(json.dumps(document))
        settle(out)
        assert (tmp_path / "secrets" / "key").read_text() == "old key"


def test_a_file_where_a_folder_should_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="expected a directory"), staged(tmp_path / "file", NAMES):
        pass
    (tmp_path / "out" / "model.py").mkdir(parents=True)
    with pytest.raises(UsageError, match="got the directory"), staged(tmp_path / "out", NAMES, force=True):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "out")
    folder.chmod(0o500)
    with pytest.raises(UsageError, match="cannot write"), staged(folder, NAMES):
        pass
    folder.chmod(0o700)
