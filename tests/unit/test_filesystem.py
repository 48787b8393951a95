"""Which file systems a store may live on."""

from __future__ import annotations

from pathlib import Path

import pytest

from postroom.store.sqlite.schema import filesystem_type, is_network_filesystem

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:30 / /home/ada rw - nfs4 server:/export rw
31 30 0:31 / /home/ada/with\\040space rw - tmpfs tmpfs rw
32 22 0:32 / /mnt/share rw - fuse.sshfs host: rw
33 22 0:33 / /mnt/sharelocal rw - xfs /dev/vdb rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/project", "ext4"),
        ("/home/ada/project", "nfs4"),
        ("/home/adalbert", "ext4"),
        ("/home/ada/with space/x", "tmpfs"),
        ("/mnt/share", "fuse.sshfs"),
        ("/mnt/sharelocal/x", "xfs"),
    ],
)
def test_a_folder_belongs_to_the_nearest_mount_above_it(folder: str, kind: str, tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(MOUNTS)
    assert filesystem_type(folder, str(table)) == kind


def test_a_system_that_does_not_say_is_trusted(tmp_path: Path) -> None:
    assert filesystem_type("/srv", str(tmp_path / "nothing")) == ""
    assert not is_network_filesystem("")


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "9p", "drvfs", "virtiofs", "vboxsf", "fuse.grpcfuse"]
)
def test_network_file_systems_are_known(kind: str) -> None:
    assert is_network_filesystem(kind)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "apfs", "fuse.ntfs-3g"])
def test_local_file_systems_are_not_refused(kind: str) -> None:
    assert not is_network_filesystem(kind)
