import stat

import pytest
from help_packages import download_packages, find_package, read_package

from models.errors import UserError

PAGES = {"text/shared/a.html": "<p id='x'>Größe</p>", "text/b.html": "<p>odd length</p>"}


def test_pages_are_read_with_the_path_all_languages_share(tmp_path, write_package):
    package = read_package(write_package(tmp_path, "de", PAGES, version="4:7.4.7-1+deb12u14"))
    assert (package.name, package.version) == ("libreoffice-help-de", "4:7.4.7-1+deb12u14")
    assert package.pages == PAGES


def test_a_package_without_help_is_refused(tmp_path, write_package):
    path = write_package(tmp_path, "de", {"media/picture.html": "<p>x</p>"})
    with pytest.raises(UserError, match="no page below usr/share/libreoffice/help"):
        read_package(path)


@pytest.mark.parametrize("kept", [0, 7, 40, 300, -1, -200])
def test_a_torn_package_is_refused_by_name(tmp_path, write_package, kept):
    path = write_package(tmp_path, "de", PAGES)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(UserError, match=rf"{path.name}: not a whole Debian package"):
        read_package(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "libreoffice-help-de_1_all.deb"
    path.write_text("<html>404 Not Found</html>")
    with pytest.raises(UserError, match="not a whole Debian package"):
        read_package(path)


def test_damaged_compression_is_refused(tmp_path, write_package):
    path = write_package(tmp_path, "de", PAGES)
    content = bytearray(path.read_bytes())
    start = content.rindex(b"\xfd7zXZ") + 30
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    with pytest.raises(UserError, match="not a whole Debian package"):
        read_package(path)


def test_the_one_file_of_a_package_is_found(tmp_path, write_package):
    write_package(tmp_path, "de", PAGES)
    path = write_package(tmp_path, "fr", PAGES)
    assert find_package(tmp_path, "libreoffice-help-fr") == path


def test_no_file_and_two_files_of_a_package_are_refused(tmp_path, write_package):
    with pytest.raises(UserError, match=r"no file libreoffice-help-fr_\*\.deb; fetch it"):
        find_package(tmp_path, "libreoffice-help-fr")
    write_package(tmp_path, "fr", PAGES, version="1")
    write_package(tmp_path, "fr", PAGES, version="2")
    with pytest.raises(UserError, match="found libreoffice-help-fr_1_all.deb, .*fr_2_all.deb"):
        find_package(tmp_path, "libreoffice-help-fr")


def put_apt_get(folder, script):
    command = folder / "apt-get"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)


def test_packages_are_fetched_into_the_folder(tmp_path, monkeypatch):
    put_apt_get(tmp_path, 'shift 2; for name in "$@"; do : > "${name}_1_all.deb"; done')
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "fetched"
    folder.mkdir()
    download_packages(["one", "two"], folder)
    assert sorted(path.name for path in folder.iterdir()) == ["one_1_all.deb", "two_1_all.deb"]


def test_what_apt_get_says_last_is_passed_on(tmp_path, monkeypatch):
    put_apt_get(
        tmp_path, 'echo "W: notice" >&2; echo "E: Unable to locate package one" >&2; exit 100'
    )
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="status 100: E: Unable to locate .* --packages") as error:
        download_packages(["one"], tmp_path)
    assert "\n" not in str(error.value)


def test_without_apt_get_the_flag_for_fetched_packages_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="apt-get: no such command .*one and two.* --packages"):
        download_packages(["one", "two"], tmp_path)
